"""Builds RAL, the C runtime, as the plain shared library `anyshape/runtime/_ral.so`.

The library is no Python module: it is loaded with ctypes and uses no Python interface, so one build serves every Python
version and the wheel is tagged `py3-none-<platform>`. Everything else about the package is in pyproject.toml.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = ["ral.c", "ral_plan.c", "ral_pool.c", "ral_watch.c"]
HEADERS = ["ral.h", "ral_internal.h"]
RUNTIME = "anyshape/runtime"


class BuildSharedLibrary(build_ext):
    """`build_ext` for a library without a module initialiser and without a Python version in its name."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + ".so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return ext.export_symbols


class PlatformWheel(bdist_wheel):
    """A wheel that depends on the platform but not on the Python version."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


# The pool's threads run the library's code until the process ends, so it must stay when its last handle is closed.
LINK_ARGUMENTS = ["-pthread", "-Wl,-z,nodelete"] if sys.platform.startswith("linux") else ["-pthread"]

setup(
    ext_modules=[
        Extension(
            "anyshape.runtime._ral",
            sources=[f"{RUNTIME}/{name}" for name in SOURCES],
            depends=[f"{RUNTIME}/{name}" for name in HEADERS],
            extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"],
            extra_link_args=LINK_ARGUMENTS,
        )
    ],
    cmdclass={"build_ext": BuildSharedLibrary, "bdist_wheel": PlatformWheel},
)
