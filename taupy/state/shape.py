"""Check that a value read from a file has the expected type, given as an annotation."""

from __future__ import annotations

from math import isfinite
from types import UnionType

TYPE_CHECKING = False
if TYPE_CHECKING:  # the prompt waits for a storer's imports
    from typing import Any

_BITS = 63


def fits(value: object, hint: Any) -> bool:
    """Whether a value of a record has the annotated type, including nested values.

    An int must fit 64 bits with its sign, a float must be finite (an int is accepted, too).

    Args:
        hint: bool, int, float, str, bytes, None, object for anything, and lists, dictionaries,
            tuples and unions of these.
    """
    if hint is object:
        return True
    kind: Any = getattr(hint, "__origin__", None)
    arguments: tuple[Any, ...] = getattr(hint, "__args__", ())
    if isinstance(hint, UnionType):
        return any(fits(value, argument) for argument in arguments)
    if kind is list and arguments[0] is int and type(value) is list and value:  # long ones
        return set(map(type, value)) == {int} and fits(min(value), int) and fits(max(value), int)
    if kind is list:
        return type(value) is list and all(fits(item, arguments[0]) for item in value)
    if kind is dict:
        return type(value) is dict and all(
            fits(key, arguments[0]) and fits(item, arguments[1]) for key, item in value.items()
        )
    if kind is tuple:
        return (
            type(value) is tuple
            and len(value) == len(arguments)
            and all(map(fits, value, arguments))
        )
    if hint is float and type(value) is float:
        return isfinite(value)
    if hint is int or hint is float:
        return type(value) is int and -(1 << _BITS) <= value < 1 << _BITS
    return value is None if hint in (None, type(None)) else type(value) is hint
