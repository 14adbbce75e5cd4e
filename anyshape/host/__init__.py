"""Groups → host program: sizes, guards, buffers, launches."""

from anyshape.host.build import BuiltProgram, LaunchShape, build_program

__all__ = ["BuiltProgram", "LaunchShape", "build_program"]
