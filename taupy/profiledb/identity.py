"""Ids derived from content, so that databases merge without renumbering.

A timer's id is a hash of its full name and its groups, a call path's id a hash of its
parent's and its timer's ids. Both are 63 bits of BLAKE2b: among ten million call paths
the probability that any two share an id is 5 in a million.
"""

from __future__ import annotations

from _blake2 import blake2b
from _struct import Struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial

from taupy.model.profile import Timer
from taupy.profiledb.text import all_storable, storable

_POSITIVE = (1 << 63) - 1


def timer_id(timer: Timer) -> int:
    """The timer's id, independent of its file's location on this machine."""
    (id,) = timer_ids([timer])
    return id


def timer_ids(timers: Sequence[Timer]) -> list[int]:
    """The id of each timer."""
    names = list(map(str.encode, all_storable([timer.full_name for timer in timers])))
    lengths = {length: _length(length) for length in set(map(len, names))}
    framed = {groups: _framed_groups(groups) for groups in {timer.groups for timer in timers}}
    # Nearly all the work per timer runs in C.
    identities = map(
        b"".join,
        zip(
            map(lengths.__getitem__, map(len, names)),
            names,
            [framed[timer.groups] for timer in timers],
            strict=True,
        ),
    )
    hashes = map(partial(blake2b, digest_size=8), identities)
    digests = b"".join(map(blake2b.digest, hashes))
    return [id & _POSITIVE for (id,) in Struct("<Q").iter_unpack(digests)]


@lru_cache(maxsize=1000)  # threads have the same
def user_event_id(name: str, unit: str) -> int:
    """The id of a user event."""
    return _id(_framed(storable(name)) + _framed(storable(unit)))


def groups_of(timer: Timer) -> tuple[str, ...]:
    """The timer's groups as stored: sorted, without repetitions."""
    return _groups(timer.groups)


@lru_cache(maxsize=1000)  # a trial has thousands of timers, and a handful of groups
def _groups(groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({storable(group) for group in groups}))


@lru_cache(maxsize=1000)
def _framed_groups(groups: tuple[str, ...]) -> bytes:
    return b"".join(map(_framed, _groups(groups)))


def callpath_ids(parent: Sequence[int], timers: Iterable[int]) -> array[int]:
    """Ids of the rows of a tree.

    Args:
        parent: each row's parent row, which precedes it; -1 for a root.
        timers: each row's timer id.
    """
    ids: array[int] = array("q")
    add = ids.append
    link = Struct("<qq").pack
    number = Struct("<Q").unpack
    for above, timer in zip(parent, timers, strict=True):
        identity = link(ids[above] if above >= 0 else 0, timer)
        add(number(blake2b(identity, digest_size=8).digest())[0] & _POSITIVE)
    return ids


def callpath_id(parent: int, timer: int) -> int:
    """The id of one call path: its timer under the call path `parent`, 0 for a root."""
    return _id(Struct("<qq").pack(parent, timer))


def _framed(text: str) -> bytes:
    data = text.encode()
    return _length(len(data)) + data


def _length(length: int) -> bytes:
    return length.to_bytes(8, "little")


def _id(identity: bytes) -> int:
    return int.from_bytes(blake2b(identity, digest_size=8).digest(), "little") & _POSITIVE
