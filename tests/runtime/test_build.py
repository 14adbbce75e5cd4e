"""The C files as others will compile them, and a stress of the pool in plain C."""

import shutil
import subprocess
from pathlib import Path

import pytest

from anyshape.runtime.loader import include_directory, source_files

STRICT = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{include_directory()}"]


@pytest.mark.parametrize("source", sorted(include_directory().glob("*.c")), ids=lambda path: path.name)
def test_no_warnings_in_strict_c11(gcc: str, source: Path, tmp_path: Path) -> None:
    subprocess.run([gcc, *STRICT, "-c", str(source), "-o", str(tmp_path / "object.o")], check=True)


def test_the_header_is_valid_cplusplus(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    (tmp_path / "use.cpp").write_text("#include <ral.h>\nint main() { return ral_abi() - RAL_ABI; }\n")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{include_directory()}", "-fsyntax-only"]
    subprocess.run([compiler, *flags, str(tmp_path / "use.cpp")], check=True)


@pytest.mark.parametrize("sanitizer", [None, "address,undefined"])
def test_stress_of_concurrent_contexts(gcc: str, tmp_path: Path, sanitizer: str | None) -> None:
    binary = tmp_path / "stress"
    sources = [str(path) for path in (Path(__file__).with_name("stress.c"), *source_files())]
    flags = [*STRICT, "-pthread"]
    if sanitizer is not None:
        flags += [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-g"]
        (tmp_path / "probe.c").write_text("int main(void) { return 0; }\n")
        probe = [gcc, f"-fsanitize={sanitizer}", str(tmp_path / "probe.c"), "-o", str(tmp_path / "probe")]
        if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            pytest.skip(f"gcc has no {sanitizer} sanitizer here")
    subprocess.run([gcc, *flags, *sources, "-o", str(binary)], check=True)
    subprocess.run([str(binary)], check=True, timeout=60, env={"ASAN_OPTIONS": "detect_leaks=0"})
