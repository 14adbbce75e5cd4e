"""PyTorch modules as `dhlo` graphs, through `torch.export`."""

from anyshape.frontends.torch.importer import CapturedModule, capture_module, import_module
from anyshape.frontends.torch.program import CallAdaptor, ImportedProgram, InputSpec, decode_outputs, encode_outputs

__all__ = [
    "CallAdaptor",
    "CapturedModule",
    "ImportedProgram",
    "InputSpec",
    "capture_module",
    "decode_outputs",
    "encode_outputs",
    "import_module",
]
