"""Settings of the whole suite: Hypothesis profiles, and a ratchet on skipped tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

SKIPS_ALLOWED = Path(__file__).with_name("skips.txt")

# Kernels are compiled inside examples, so no example has a deadline. CI draws the same examples every time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# Tests count what is compiled: nothing may come from, or go to, the cache of whoever runs them.
os.environ["ANYSHAPE_CACHE"] = "off"

_skips = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write what is printed now into the golden files")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skips] = 0


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that skips more tests than `tests/skips.txt` allows: a test that never runs protects nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    skips = len(reporter.stats.get("skipped", []))
    session.config.stash[_skips] = skips
    if skips > int(SKIPS_ALLOWED.read_text()) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skips, allowed = config.stash[_skips], int(SKIPS_ALLOWED.read_text())
    terminalreporter.write_line(f"skips: {skips} (allowed: {allowed}, tests/skips.txt)")
    if skips > allowed:
        terminalreporter.write_line(
            f"FAILED: {skips} tests were skipped and {allowed} may be: make them run, or raise the number", red=True
        )
