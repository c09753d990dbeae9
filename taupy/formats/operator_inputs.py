"""Sizes and types of the inputs of operators, added up over their calls and what they launched.

The slices of a thread come in order of their start, as for `slices.Timeline`. An API call belongs
to the innermost operator that is active when it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from taupy.formats.gpu_records import NOWHERE
from taupy.formats.launchers import Launchers
from taupy.model.profile import OperatorInput

UNKNOWN: Final = -1
"""The signature of a call whose inputs were not recorded."""

_MOST_TENSORS: Final = 4
"""Of a list of tensors, so many are written out."""

_TYPES: Final = {
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
    "float": "float32",
    "double": "float64",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}
"""PyTorch's names of C++ types."""

_NO_TENSORS: Final = ("Scalar", "ScalarList", "")


class OperatorInputs:
    """The signatures of a trace's operators, with sums by call path."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sums: list[list[int]] = []  # code, signature, calls, time, launches, GPU time
        self._places: dict[tuple[int, int], int] = {}
        self._launched = Launchers()
        self._ends: list[int] = []
        self._open: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def number(self, signature: str) -> int:
        """The number of a signature."""
        return self._numbers.setdefault(signature, len(self._numbers))

    def begin_thread(self) -> None:
        self._ends, self._open = [], []

    def operator(self, start: int, end: int, code: int, signature: int) -> None:
        """Add the call of an operator, at the call path with this code."""
        ends = self._ends
        while ends and ends[-1] <= start:
            ends.pop()
            self._open.pop()
        place = UNKNOWN
        if signature != UNKNOWN:
            key = (code, signature)
            place = self._places.setdefault(key, len(self._sums))
            if place == len(self._sums):
                self._sums.append([code, signature, 0, 0, 0, 0])
            sums = self._sums[place]
            sums[2] += 1
            sums[3] += end - start
        ends.append(end)
        self._open.append(place)

    def call(self, start: int, process: int, correlation: int) -> None:
        """Note the operator that makes an API call."""
        ends = self._ends
        while ends and ends[-1] <= start:
            ends.pop()
            self._open.pop()
        if ends and self._open[-1] != UNKNOWN:
            self._launched.note(process, correlation, self._open[-1])

    def ran(self, process: int, correlation: int, duration: int) -> None:
        """Add work on a GPU that the API call with this id launched."""
        place = self._launched.find(process, correlation)
        if place != NOWHERE:
            sums = self._sums[place]
            sums[4] += 1
            sums[5] += max(duration, 0)

    def rows(self, code_bits: int) -> Iterator[tuple[int, OperatorInput]]:
        """The sums, each with the number of its thread: of operators that launched GPU work, or of
        all if none did.

        Args:
            code_bits: number of low bits of a code that are the row in the thread's tree.
        """
        texts = list(self._numbers)
        on_gpu = any(launches for *_, launches, _ in self._sums)
        for code, signature, *sums in self._sums:
            if on_gpu and not sums[2]:
                continue
            row = code & ((1 << code_bits) - 1)
            yield code >> code_bits, OperatorInput(row, texts[signature], *sums)


def signature_of(sizes: Any, types: Any = None) -> str | None:
    """The tensors among an operator's inputs: `bfloat16[16x559], int64[]`; None if unknown.

    Args:
        sizes: of each input, as PyTorch records them: a list, of lists for a list of tensors.
        types: of each input, if they are known.
    """
    if not isinstance(sizes, list):
        return None
    names = types if isinstance(types, list) and len(types) == len(sizes) else None
    texts = []
    for at, extents in enumerate(sizes):
        name = str(names[at]) if names else ""
        if not isinstance(extents, list) or (names and name in _NO_TENSORS and not extents):
            continue
        if any(isinstance(extent, list) for extent in extents):
            texts.append(_of_list(extents))
        elif extents or names:
            texts.append(_TYPES.get(name, name) + _extents(extents))
    return ", ".join(texts)[:1000]


def _extents(extents: Sequence[Any]) -> str:
    return f"[{'x'.join(map(str, extents))}]"


def _of_list(tensors: Sequence[Any]) -> str:
    shown = " ".join(_extents(tensor) for tensor in tensors[:_MOST_TENSORS]
                     if isinstance(tensor, list))  # fmt: skip
    if len(tensors) <= _MOST_TENSORS:
        return f"({shown})"
    elements = 0
    for tensor in tensors:
        size = 1
        for extent in tensor if isinstance(tensor, list) else ():
            size *= extent if isinstance(extent, int) else 1
        elements += size
    return f"({shown} ...: {len(tensors)} tensors, {elements} elements)"
