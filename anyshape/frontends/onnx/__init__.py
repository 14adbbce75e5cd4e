"""ONNX models as `dhlo` graphs: `load_model` reads and checks a file, `import_model` builds the graph, `CallAdaptor` maps calls onto it."""

from anyshape.frontends.onnx.calls import CallAdaptor
from anyshape.frontends.onnx.importer import ImportedModel, import_model
from anyshape.frontends.onnx.loading import LoadedModel, load_model

__all__ = ["CallAdaptor", "ImportedModel", "LoadedModel", "import_model", "load_model"]
