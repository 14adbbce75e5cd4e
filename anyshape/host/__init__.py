"""Groups → host program: sizes, guards, buffers, launches."""

from anyshape.host.build import BuiltProgram, ConstantEntry, LaunchShape, build_program

__all__ = ["BuiltProgram", "ConstantEntry", "LaunchShape", "build_program"]
