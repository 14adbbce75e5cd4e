"""Attention: `tile.attend` claimed by register tiles over packed keys and values, with an online softmax between them.

| part | what |
|---|---|
| `softmax` | a row of scores to probabilities, one function for each kind of mask |
| `few` | products of one or two queries with keys and values where they lie |
| `driver` | the driver of one head; sizes and strides at run time |
| `plan` | the kernel of one `tile.attend`: its tasks |
"""

from anyshape.codegen.attend.plan import (
    attend_schedule,
    attend_time,
    can_attend,
    elements_name,
    emit_attend,
    reads_in_place,
)

__all__ = ["attend_schedule", "attend_time", "can_attend", "elements_name", "emit_attend", "reads_in_place"]
