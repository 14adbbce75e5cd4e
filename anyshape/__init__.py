"""anyshape: a dynamic-shape deep-learning compiler.

A model goes in once; one native program comes out that runs at any batch size, length or image size.

The public names load on first use (PEP 562): importing the package imports no part of the compiler, so a program that
only loads and runs an artifact pays for nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshape.driver.api import CompiledModule, compile
    from anyshape.driver.remarks import report
    from anyshape.frontends.torch.live import invalidate
    from anyshape.frontends.torch.quantised.quantise import quantize
    from anyshape.support.errors import (
        AnyshapeError,
        ArgumentError,
        ArtifactError,
        CodegenError,
        CompileError,
        DtypeError,
        ExportError,
        FileFormatError,
        GuardError,
        IndexOutOfRange,
        MemoryLimit,
        OptionError,
        RankError,
        SingularMatrix,
        TemplateError,
        UnsupportedOp,
        UnsupportedOps,
        VerifyError,
    )
    from anyshape.support.options import Options

__version__ = "0.1.0"

__all__ = [
    "AnyshapeError",
    "ArgumentError",
    "ArtifactError",
    "CodegenError",
    "CompileError",
    "CompiledModule",
    "DtypeError",
    "ExportError",
    "FileFormatError",
    "GuardError",
    "IndexOutOfRange",
    "MemoryLimit",
    "OptionError",
    "Options",
    "RankError",
    "SingularMatrix",
    "TemplateError",
    "UnsupportedOp",
    "UnsupportedOps",
    "VerifyError",
    "__version__",
    "compile",
    "invalidate",
    "quantize",
    "report",
]

_ROOMS = {
    "CompiledModule": "anyshape.driver.api",
    "compile": "anyshape.driver.api",
    "invalidate": "anyshape.frontends.torch.live",
    "quantize": "anyshape.frontends.torch.quantised.quantise",
    "report": "anyshape.driver.remarks",
    "Options": "anyshape.support.options",
}
"""Public name -> module that defines it; every other name in `__all__` is an error."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_ROOMS.get(name, "anyshape.support.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
