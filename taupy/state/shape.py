"""Check that a value read from a file has the expected type, given as an annotation."""

from __future__ import annotations

from math import isfinite
from types import UnionType
from typing import Any, Union, get_args, get_origin

_BITS = 63


def fits(value: object, hint: Any) -> bool:
    """Whether a value of a record has the annotated type, including nested values.

    An int must fit 64 bits with its sign, a float must be finite (an int is accepted, too).

    Args:
        hint: bool, int, float, str, bytes, None, Any, and lists, dictionaries, tuples and
            unions of these.
    """
    kind, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, UnionType):
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
