"""PyTorch modules as `dhlo` graphs, through `torch.export`."""

from anyshape.frontends.torch.importer import import_module
from anyshape.frontends.torch.program import CallAdaptor, ImportedProgram, InputSpec

__all__ = ["CallAdaptor", "ImportedProgram", "InputSpec", "import_module"]
