"""Recipes: arrays that are computed again whenever the live arrays that they are made of change."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from anyshape.dialects.arrays import ArrayType
from anyshape.dialects.dhlo.base import Array, DhloOp, function_type
from anyshape.dialects.dhlo.constant import Constant, Weight
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.dialects.sizes import dtype_of, sizes_of


@dataclass(frozen=True)
class OpRecipe:
    """One result of one op, as a function of the weights among its operands.

    Attributes:
        function: from the weights to the result, all of static sizes.
        operands: names of the weights, in the order of the arguments.
    """

    function: FuncOp
    operands: tuple[str, ...]

    @classmethod
    def of(cls, op: DhloOp, result: int) -> OpRecipe:
        """The recipe of a result of an op whose operands are weights and constants."""
        weights = list(dict.fromkeys(value for value in op.operands if isinstance(value.owner, Weight)))
        block = Block(arg_types=[value.type for value in weights])
        inside: dict[SSAValue, SSAValue] = dict(zip(weights, block.args, strict=True))
        for value in dict.fromkeys(op.operands):
            if isinstance(value.owner, Constant):
                block.add_op(constant := value.owner.clone())
                inside[value] = constant.result
        block.add_op(clone := op.clone(inside))
        block.add_op(ReturnOp(clone.results[result]))
        type = function_type([value.type for value in weights], [clone.results[result].type])
        names = tuple(value.owner.attribute("name") for value in weights if isinstance(value.owner, Weight))
        return cls(FuncOp("recipe", type, Region(block)), names)

    @property
    def type(self) -> ArrayType:
        (result,) = self.function.function_type.outputs
        return ArrayType(dtype_of(result).numpy, tuple(size.value for size in sizes_of(result)))

    @property
    def name(self) -> str:
        """The same for equal functions of the same weights."""
        return hashlib.sha256(f"{self.function}{self.operands}".encode()).hexdigest()[:32]

    def compute(self, *arrays: Array) -> Array:
        """The result, by the ops' references."""
        (result,) = evaluate(self.function, arrays)
        return result


__all__ = ["OpRecipe"]
