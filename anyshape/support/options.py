"""The choices a caller makes. This is the only module that reads environment variables."""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, cast, get_args

from anyshape.support.errors import OptionError

LOG_NAMES: Mapping[str, str] = {
    "graph": "the dhlo graph as the front end handed it over",
    "passes": "each graph pass that changed something, with op counts before and after",
    "fusion": "the groups, and for every edge not fused the reason",
    "kernels": "each kernel plan",
    "host": "the host program: sizes, guards, arena, launches",
    "guards": "every condition on sizes that the model itself forces",
    "mlir": "the MLIR module of the kernels before it is lowered to LLVM",
    "asm": "the assembly of the kernels",
    "compile": "milliseconds a stage",
}
"""Names that `Options.log` takes, each with what it prints."""

VARIABLES: Mapping[str, str] = {
    "ANYSHAPE_THREADS": "number of threads that kernels run on (default: one a core)",
    "ANYSHAPE_LOG": f"comma-separated names of what to log: {', '.join(LOG_NAMES)}",
    "ANYSHAPE_DUMP": "directory that receives one numbered file a stage",
    "ANYSHAPE_CACHE": "directory of compiled kernels, or 'off' (default: anyshape in the user's cache directory)",
    "ANYSHAPE_VERIFY": "1 verifies the program after every pass",
    "ANYSHAPE_STRICT": "1 makes whatever torch.compile would leave to PyTorch an error",
    "ANYSHAPE_PACK_WEIGHTS": "0 keeps no packed or copied form of weights: products pack on the fly (default: 1)",
    "ANYSHAPE_ACTIVATIONS": "what quantised products round their left-hand sides to: int16 (default) or int8",
    "ANYSHAPE_PACK_BUDGET_BYTES": "most bytes of packed and copied forms of a program's weights, largest first (default: no limit)",
}
"""Every environment variable that is read, with its meaning."""

_PREFIX = "ANYSHAPE_"
# Settings of the test suite, which are no options of the compiler.
_TEST_PREFIX = "ANYSHAPE_TEST_"
_MAX_THREADS = 4096
_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}

Precision = Literal["strict"]
"""`strict`: IEEE operations in the element type; only fused multiply-add and the order of a reduction are free."""

Activations = Literal["int16", "int8"]
"""What products with block-quantised weights round each 32 elements of their left-hand sides to, beside a scale: `int16` keeps
logits within 1e-6 of those of the decoded weights (normalised mean square error), `int8` is faster where rows are many."""


@dataclass(frozen=True)
class Options:
    """How to compile and run a model. The defaults depend on nothing outside the process.

    Args:
        threads: threads that kernels run on; None is one a core.
        log: names from `LOG_NAMES`, printed to standard error while compiling.
        dump: directory that receives one numbered file a stage; made when missing.
        precision: which roundings are allowed, see `Precision`.
        activations: integers in products with block-quantised weights, see `Activations`.
        verify: verify the program after every pass.
        strict: inside `torch.compile`, nothing is left to PyTorch: what cannot be compiled is an error that lists all of it.
        cache: directory of compiled kernels, shared between processes; None keeps kernels in memory only.
        pack_weights: whether weights may be kept packed for products, and joined where products are; otherwise they are read where
            they are and packed on the fly. Block-quantised constants are packed in any case.
        pack_budget_bytes: most bytes of such forms, the largest weights first; None is no limit. Where a program of `torch.compile` runs on
            several sets of weights, of all of them together: those used longest ago are made again when they are needed.

    Raises:
        OptionError: a field has a value that is not allowed.
    """

    threads: int | None = None
    log: tuple[str, ...] = ()
    dump: Path | None = None
    precision: Precision = "strict"
    activations: Activations = "int16"
    verify: bool = False
    cache: Path | None = None
    pack_weights: bool = True
    pack_budget_bytes: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        _check_threads("Options.threads", self.threads)
        _check_log("Options.log", self.log)
        _check_path("Options.dump", self.dump)
        _check_path("Options.cache", self.cache)
        _check_choice("precision", self.precision, get_args(Precision))
        _check_choice("activations", self.activations, get_args(Activations))
        _check_truth("Options.verify", self.verify)
        _check_truth("Options.strict", self.strict)
        _check_truth("Options.pack_weights", self.pack_weights)
        _check_bytes("Options.pack_budget_bytes", self.pack_budget_bytes)

    def updated(self, changes: Mapping[str, object]) -> "Options":
        """These options with other values for the named fields.

        Raises:
            OptionError: a name is no field, or a value is not allowed.
        """
        known = [field.name for field in fields(self)]
        unknown = [name for name in changes if name not in known]
        if unknown:
            raise OptionError(
                "unknown option", where="options", got=", ".join(map(repr, unknown)), expected=", ".join(known)
            )
        return replace(self, **dict(changes))  # pyright: ignore[reportArgumentType] - checked by __post_init__

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Options":
        """The options that `VARIABLES` ask for; an empty variable counts as unset.

        Args:
            environ: the variables to read, by default those of the process.

        Raises:
            OptionError: a value is not allowed, or a variable starts with `ANYSHAPE_` and is none of `VARIABLES`.
        """
        variables = {name: value.strip() for name, value in (os.environ if environ is None else environ).items()}
        _check_variable_names(variables)
        threads = _parse_threads(variables.get("ANYSHAPE_THREADS", ""))
        log = tuple(name.strip() for name in variables.get("ANYSHAPE_LOG", "").split(",") if name.strip())
        _check_log("ANYSHAPE_LOG", log)
        dump = variables.get("ANYSHAPE_DUMP", "")
        return cls(
            threads=threads,
            log=log,
            dump=Path(dump) if dump else None,
            verify=_parse_truth("ANYSHAPE_VERIFY", variables.get("ANYSHAPE_VERIFY", "")),
            activations=cast("Activations", variables.get("ANYSHAPE_ACTIVATIONS", "") or "int16"),
            strict=_parse_truth("ANYSHAPE_STRICT", variables.get("ANYSHAPE_STRICT", "")),
            cache=_cache_directory(variables),
            pack_weights=_parse_truth(
                "ANYSHAPE_PACK_WEIGHTS", variables.get("ANYSHAPE_PACK_WEIGHTS", ""), default=True
            ),
            pack_budget_bytes=_parse_bytes(
                "ANYSHAPE_PACK_BUDGET_BYTES", variables.get("ANYSHAPE_PACK_BUDGET_BYTES", "")
            ),
        )


def _check_threads(where: str, threads: object) -> None:
    if threads is None:
        return
    # bool is an int to Python, but True threads is a mistake.
    if isinstance(threads, int) and not isinstance(threads, bool) and 1 <= threads <= _MAX_THREADS:
        return
    raise OptionError(
        "the number of threads is out of range",
        where=where,
        got=repr(threads),
        expected=f"an integer from 1 to {_MAX_THREADS}",
        remedy="leave it out to use one thread a core",
    )


def _check_truth(where: str, value: object) -> None:
    if not isinstance(value, bool):
        raise OptionError("not a truth value", where=where, got=repr(value), expected="True or False")


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise OptionError(
            f"unknown {name}", where=f"Options.{name}", got=repr(value), expected=", ".join(map(repr, choices))
        )


def _check_bytes(where: str, value: object) -> None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return
    raise OptionError(
        "a number of bytes is out of range", where=where, got=repr(value), expected="an integer from 0 on",
        remedy="leave it out to set no limit",
    )  # fmt: skip


def _check_log(where: str, log: object) -> None:
    if not isinstance(log, tuple):
        raise OptionError(
            "log is a tuple of names", where=where, got=repr(log), expected="a tuple such as ('fusion', 'guards')"
        )
    unknown = [name for name in cast("tuple[object, ...]", log) if name not in LOG_NAMES]
    if unknown:
        width = max(map(len, LOG_NAMES))
        raise OptionError(
            "unknown log name",
            where=where,
            got=", ".join(map(repr, unknown)),
            expected="\n".join(f"{name:<{width}}  {meaning}" for name, meaning in LOG_NAMES.items()),
        )


def _check_path(where: str, path: object) -> None:
    if path is not None and not isinstance(path, Path):
        raise OptionError(
            "a directory is given as a pathlib.Path", where=where, got=repr(path), expected="a pathlib.Path or None"
        )


def _check_variable_names(variables: Mapping[str, str]) -> None:
    """A misspelt variable would otherwise change nothing, in silence."""
    unknown = sorted(
        name
        for name in variables
        if name.startswith(_PREFIX) and not name.startswith(_TEST_PREFIX) and name not in VARIABLES
    )
    if unknown:
        raise OptionError(
            "unknown environment variable",
            where="environment",
            got=", ".join(unknown),
            expected="\n".join(f"{name}: {meaning}" for name, meaning in VARIABLES.items()),
            remedy="correct the name, or unset the variable",
        )


def _parse_threads(text: str) -> int | None:
    if not text:
        return None
    threads: int | str = int(text) if text.isascii() and text.isdigit() else text
    _check_threads("ANYSHAPE_THREADS", threads)
    return int(threads)


def _parse_bytes(variable: str, text: str) -> int | None:
    if not text:
        return None
    size: int | str = int(text) if text.isascii() and text.isdigit() else text
    _check_bytes(variable, size)
    return int(size)


def _parse_truth(variable: str, text: str, *, default: bool = False) -> bool:
    if not text:
        return default
    if text.lower() not in _TRUTH:
        raise OptionError("not a truth value", where=variable, got=repr(text), expected=", ".join(_TRUTH))
    return _TRUTH[text.lower()]


def _cache_directory(variables: Mapping[str, str]) -> Path | None:
    """ANYSHAPE_CACHE, or `anyshape` in the XDG cache directory; None when it is off or the user has no home."""
    chosen = variables.get("ANYSHAPE_CACHE", "")
    if chosen:
        return None if chosen.lower() == "off" else Path(chosen)
    base = variables.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    if base and Path(base).is_absolute():
        return Path(base) / "anyshape"
    home = variables.get("HOME", "") or variables.get("USERPROFILE", "")
    return Path(home) / ".cache" / "anyshape" if home else None


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Generator[None]:
    """Inside, `Options.from_environment` sees these variables, also where a user's function calls it."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
