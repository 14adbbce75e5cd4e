"""JSON from files that are not trusted."""

import json
from typing import Any, TypeGuard

from anyshape.support.errors import FileFormatError


def parse(where: object, text: bytes) -> object:
    """The value of a JSON text in which no object has a name twice.

    Raises FileFormatError, which says `where`, for anything else: duplicates, text that is not UTF-8, nesting without end.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen = set[str]()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))
            raise FileFormatError(
                "a name is there twice", where=where, got=repr(twice[:80]), remedy="get the file again"
            )
        return found

    try:
        value: object = json.loads(text.decode(), object_pairs_hook=unique)
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            "not valid JSON", where=where, got=str(error)[:120], remedy="get the file again"
        ) from error
    return value


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a parsed value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a parsed value is an array."""
    return isinstance(value, list)


def is_whole_numbers(value: object) -> TypeGuard[list[int]]:
    """Whether a parsed value is an array of whole numbers, none negative."""
    return is_array(value) and all(type(item) is int and item >= 0 for item in value)
