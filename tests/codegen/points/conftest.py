"""All plans compiled once, as one module."""

import sys
from pathlib import Path

import pytest

# Plans and harness are modules beside the tests.
sys.path.insert(0, str(Path(__file__).parent))

import points_access_plans
import points_harness
import points_plans


@pytest.fixture(scope="session")
def compiled() -> points_harness.Compiled:
    """Every plan of `points_plans` and `points_access_plans`, for this machine."""
    return points_harness.compile_plans(every_plan())


def every_plan():
    kernels = [
        points_plans.bias_relu(),
        points_plans.bias_gelu(),
        points_plans.masked_softmax(),
        points_plans.layer_norm(),
    ]
    kernels += [make() for make in points_access_plans.SINGLE]
    kernels += [
        points_access_plans.map_of(f"map_{name}", element) for name, element in points_access_plans.ELEMENTS.items()
    ]
    for name, element in {"f32": points_plans.F32, **points_access_plans.ELEMENTS}.items():
        kinds = points_access_plans.kinds_of(name)
        kernels.append(points_access_plans.reduce_rows(f"rows_{name}", kinds, element))
        kernels.append(points_access_plans.reduce_columns(f"columns_{name}", kinds, element))
    kernels += [
        points_access_plans.half_softmax(f"softmax_{name}", element)
        for name, element in points_access_plans.NARROW.items()
    ]
    for name, element in points_access_plans.NARROW.items():
        kernels.append(points_access_plans.cast(f"to_{name}", points_plans.F32, element))
        kernels.append(points_access_plans.cast(f"from_{name}", element, points_plans.F32))
    kernels += [points_access_plans.fixed_row(extent) for extent in points_access_plans.FIXED]
    kernels += [points_access_plans.product(), points_access_plans.product("product_i32", points_access_plans.i32)]
    return kernels
