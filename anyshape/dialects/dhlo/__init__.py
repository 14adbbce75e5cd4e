"""The `dhlo` dialect: pure tensor ops on symbolic sizes, one class an op (`base.py` is the contract)."""

from anyshape.dialects.arrays import Array, ArrayType, ConstantStore
from anyshape.dialects.dhlo.assembly import Concatenate, Iota, Pad
from anyshape.dialects.dhlo.attention import Attention
from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dhlo.base import (
    REQUIRED,
    Arg,
    DhloOp,
    Elementwise,
    Environment,
    Oracle,
    Points,
    Sample,
    Sym,
)  # fmt: skip
from anyshape.dialects.dhlo.binary import (
    Add,
    And,
    Divide,
    FloorDivide,
    Maximum,
    Minimum,
    Modulo,
    Multiply,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    Subtract,
    Xor,
)  # fmt: skip
from anyshape.dialects.dhlo.chunks import Chunk
from anyshape.dialects.dhlo.constant import Constant, SizeOf, Weight, constant_value
from anyshape.dialects.dhlo.contraction import DotGeneral
from anyshape.dialects.dhlo.convolution import Convolution, DirectConvolution, Patches
from anyshape.dialects.dhlo.dialect import Dhlo
from anyshape.dialects.dhlo.elementwise import Binary, FloatUnary, Unary
from anyshape.dialects.dhlo.gather import Gather
from anyshape.dialects.dhlo.laws import Law, law, simplify_op
from anyshape.dialects.dhlo.movement import BroadcastInDim, Reshape, Slice, Transpose
from anyshape.dialects.dhlo.normalization import LayerNorm, LogSoftmax, RmsNorm, Softmax
from anyshape.dialects.dhlo.quantised import Dequantize, QuantisedDot
from anyshape.dialects.dhlo.reduction import ArgMax, ArgMin, Mean, Reduce
from anyshape.dialects.dhlo.reshape_groups import AxisGroup, reshape_groups
from anyshape.dialects.dhlo.scan import Scan
from anyshape.dialects.dhlo.selection import Clamp, Compare, Convert, Select
from anyshape.dialects.dhlo.unary import (
    Abs,
    Ceil,
    Cosine,
    Erf,
    Exponential,
    ExponentialMinusOne,
    Floor,
    Gelu,
    IsFinite,
    IsInf,
    IsNan,
    Log,
    Logistic,
    LogPlusOne,
    Negate,
    Not,
    Relu,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Silu,
    Sine,
    Sqrt,
    Tanh,
    Trunc,
)  # fmt: skip
from anyshape.dialects.dhlo.update import DynamicUpdateSlice

__all__ = [
    "REQUIRED", "Abs", "Add", "And", "Arg", "ArgMax", "ArgMin", "Array", "ArrayType", "Attention", "AttributeValue",
    "AxisGroup", "Binary", "BroadcastInDim", "Ceil", "Chunk", "Clamp", "Compare", "Concatenate", "Constant", "ConstantStore",
    "Convert", "Convolution", "Cosine", "Dequantize", "Dhlo", "DhloOp", "DirectConvolution", "Divide", "DotGeneral",
    "DynamicUpdateSlice", "Elementwise", "Environment", "Erf", "Exponential", "ExponentialMinusOne", "FloatUnary", "Floor",
    "FloorDivide", "Gather", "Gelu", "Iota", "IsFinite", "IsInf", "IsNan", "Law", "LayerNorm", "Log", "LogPlusOne",
    "LogSoftmax", "Logistic", "Maximum", "Mean", "Minimum", "Modulo", "Multiply", "Negate", "Not", "Or", "Oracle", "Pad",
    "Patches", "Points", "Power", "QuantisedDot", "Reduce", "Relu", "Remainder", "Reshape", "RmsNorm", "RoundNearestEven",
    "Rsqrt", "Sample", "Scan", "Select", "ShiftLeft", "ShiftRightArithmetic", "Sign", "Silu", "Sine", "SizeOf", "Slice",
    "Softmax", "Sqrt", "Subtract", "Sym", "Tanh", "Transpose", "Trunc", "Unary", "Weight", "Xor", "constant_value", "law",
    "reshape_groups", "simplify_op",
]  # fmt: skip
