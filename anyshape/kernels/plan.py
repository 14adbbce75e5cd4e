"""Plans: one for each distinct group, whatever it was called in the program."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import Operation

from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.locations import location_text
from anyshape.dialects.messages import verbatim
from anyshape.dialects.packed_blocks import PackedBlocks
from anyshape.dialects.packed_panels import PackedOperand
from anyshape.dialects.tile import KernelOp
from anyshape.fusion.roles import checks_indices
from anyshape.kernels.attention import plan_attention
from anyshape.kernels.canonical import CanonicalGroup, canonicalise, structure_of, symbols_in_order
from anyshape.kernels.convolution import convolution_of, plan_convolution
from anyshape.kernels.loops import plan_loops
from anyshape.kernels.products import has_product_kernel, plan_product
from anyshape.kernels.quantised import plan_quantised, quantised_dot_of
from anyshape.kernels.scans import plan_scans
from anyshape.kernels.updates import Update, plan_updates
from anyshape.kernels.whole import plan_whole
from anyshape.symbolic import Size


@dataclass(frozen=True)
class Plan:
    """A kernel and what its launch needs to know; sizes are over the kernel's own symbols s0, s1, …

    `inputs`: which group input each input buffer of the kernel is; `packed`: input buffers that hold a constant in packed
    form. `extent` is None where the target's schedule decides (claimed kernels).
    """

    kernel: KernelOp
    inputs: tuple[int, ...]
    packed: Mapping[int, PackedOperand | PackedBlocks] = field(default_factory=dict[int, PackedOperand | PackedBlocks])
    offsets: Mapping[int, Size] = field(default_factory=dict[int, Size])
    extent: Size | None = None
    updates: tuple[Update, ...] = ()
    """Where the results lie, if they are parts of inputs."""


@dataclass(frozen=True)
class Launch:
    """One group of the program with its plan: `symbols` gives the kernel's sizes by the program's names."""

    fusion: FusionOp
    plan: Plan
    symbols: tuple[str, ...]


@dataclass
class PlanTable:
    """Plans by the structure of their group: six equal layers have the kernels of one.

    `activations` says what the left-hand sides of quantised products are rounded to, `int16` or `int8`.
    """

    activations: str = "int16"
    plans: dict[Hashable, Plan] = field(default_factory=dict[Hashable, Plan])
    sites: list[str] = field(default_factory=list[str])

    def launch_of(self, fusion: FusionOp, constant_inputs: frozenset[int]) -> Launch:
        """The plan of a group, made when no equal group was planned before."""
        symbols = symbols_in_order(fusion)
        packable = constant_inputs if fusion.kind.data == "contract" else frozenset[int]()
        key: Hashable = (packable, len(self.sites) if _has_sites(fusion) else None, structure_of(fusion, symbols))
        if key not in self.plans:
            group = canonicalise(fusion, symbols)
            self.plans[key] = plan_group(
                group,
                f"k{len(self.plans)}_{group.kind}",
                constant_inputs,
                self._sites_of(fusion, group),
                self.activations,
            )
        return Launch(fusion, self.plans[key], tuple(symbols))

    def _sites_of(self, fusion: FusionOp, group: CanonicalGroup) -> dict[Operation, int]:
        sites: dict[Operation, int] = {}
        for op, copy in zip(fusion.block.ops, group.block.ops, strict=True):
            if checks_indices(op):
                sites[copy] = len(self.sites)
                where = verbatim(location_text(op.location) or "an unknown line")
                self.sites.append(f"an index at {where}: index %lld is out of range [0, %lld)")
        return sites


def _has_sites(fusion: FusionOp) -> bool:
    """Whether the kernel's errors name lines of the program, so that no other group has the same."""
    return any(map(checks_indices, fusion.block.ops))


def plan_group(
    group: CanonicalGroup,
    name: str,
    constant_inputs: frozenset[int],
    sites: Mapping[Operation, int],
    activations: str = "int16",
) -> Plan:
    """The plan of one canonical group."""
    quantised = quantised_dot_of(group)
    if quantised is not None:
        product = plan_quantised(group, quantised, name, activations, sites)
        return Plan(product.kernel, product.inputs, product.packed, product.offsets)
    convolution = convolution_of(group)
    if convolution is not None:
        kernel, inputs, offsets = plan_convolution(group, convolution, name)
        return Plan(kernel, inputs, offsets=offsets)
    match group.kind:
        case "contract" if has_product_kernel(group):
            product = plan_product(group, name, constant_inputs, sites)
            return Plan(product.kernel, product.inputs, product.packed, product.offsets)
        case "attend":
            kernel, inputs, offsets = plan_attention(group, name)
            return Plan(kernel, inputs, offsets=offsets)
        case "update":
            kernel, inputs, extent, updates = plan_updates(group, name, sites)
            return Plan(kernel, inputs, extent=extent, updates=updates)
        case "whole":
            kernel, inputs = plan_whole(group, name, sites)
            return Plan(kernel, inputs)
        case "scan":
            kernel, extent = plan_scans(group, name, sites)
            return Plan(kernel, tuple(range(len(group.block.args))), extent=extent)
        case _:
            kernel, extent = plan_loops(group, name, sites)
            return Plan(kernel, tuple(range(len(group.block.args))), extent=extent)
