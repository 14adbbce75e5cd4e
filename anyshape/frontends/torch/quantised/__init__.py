"""PyTorch models with block-quantised weights.

| part | what |
|---|---|
| `quantise` | `anyshape.quantize` |
| `plan` | which layers are quantised, how, and why others are not |
| `encode` | matrices as blocks, by a search for the scales of least squared error |
| `layers` | the modules that hold blocks, and the op that decodes them |
| `measure` | errors of outputs, by runs of both models |
| `report` | all of it as data and as a table |
"""

from anyshape.frontends.torch.quantised.layers import QuantisedEmbedding, QuantisedLinear
from anyshape.frontends.torch.quantised.quantise import quantize
from anyshape.frontends.torch.quantised.report import LayerReport, OutputError, QuantisationReport

__all__ = ["LayerReport", "OutputError", "QuantisationReport", "QuantisedEmbedding", "QuantisedLinear", "quantize"]
