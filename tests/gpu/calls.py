"""What the host did while a GPU's records were kept: a file of text beside CUPTI's buffers.

`record.py` writes `calls.tsv` from a trial of `taupy run --trace=gpu,host`. Its lines have columns
that tabs separate; the first column says what a line is:

    timer  NAME  FILE  LINE  GROUPS
    call   KIND  NODE  THREAD  CORRELATION  BEGIN_NS  END_NS  FUNCTION  PATH  OWNER

A timer is a member of call paths; FILE and LINE may be empty, and `|` is between its GROUPS. A call
is one of CUDA's API (KIND api; sync: it waits for the GPU) or a range of the host (KIND range: a
layer, phase or step, without CORRELATION). THREAD is the number of the host's thread in the trial,
and ends in ` native` if the thread never ran Python. Times are nanoseconds since the epoch. PATH is
the call path above the call, from the root, its timers in TAU's spelling with ` => ` between them.
OWNER is the call path of the GPU's work with this correlation; empty if there was none. Kernels,
copies and their times are in the buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from taupy.model.profile import Profile, ThreadProfile, Timer

FILE = "calls.tsv"
BETWEEN = " => "


class Call(NamedTuple):
    """A line of a call; see above."""

    kind: str
    node: int
    thread: int
    is_native: bool
    correlation: int | None
    begin_ns: int
    end_ns: int
    function: str
    path: tuple[str, ...]
    owner: tuple[str, ...]


class Host(NamedTuple):
    """All of a file.

    Attributes:
        timers: by TAU's spelling.
        calls: in order of their begins.
    """

    timers: dict[str, Timer]
    calls: list[Call]


def of_profile(profile: Profile) -> Host:
    """The calls of a trial that has a trace."""
    spelling = [_plain(timer.full_name) for timer in profile.timers]
    owners: dict[tuple[int, int], tuple[str, ...]] = {}
    for measured in profile.threads:
        for one in measured.activities if measured.thread.kind == "stream" else ():
            if one.correlation is not None:
                owners[measured.thread.node, one.correlation] = _path(spelling, measured, one.row)
    calls = []
    for measured in profile.threads:
        thread = measured.thread
        for one in measured.activities if thread.kind == "host" else ():
            owner = owners.get((thread.node, one.correlation or 0), ())
            calls.append(
                Call(
                    one.kind, thread.node, thread.thread, thread.name.startswith("native"),
                    one.correlation, one.start_ns, one.end_ns,
                    spelling[measured.tree.timer[one.row]],
                    _path(spelling, measured, one.row), owner,
                )
            )  # fmt: skip
    named = {name for one in calls for name in (*one.path, *one.owner, one.function)}
    timers = {
        name: timer._replace(path=None, short=None)
        for name, timer in zip(spelling, profile.timers, strict=True)
        if name in named
    }
    return Host(timers, sorted(calls, key=lambda one: one.begin_ns))


def _path(spelling: list[str], measured: ThreadProfile, row: int) -> tuple[str, ...]:
    """The call path above a row, from the root."""
    found: list[str] = []
    while (row := measured.tree.parent[row]) >= 0:
        found.append(spelling[measured.tree.timer[row]])
    return tuple(reversed(found))


def _plain(text: str) -> str:
    """As one column of one line, and as one member of a path."""
    for odd, plain in (("\t", " "), ("\n", " "), ("\r", " "), (BETWEEN, " = > ")):
        text = text.replace(odd, plain)
    return text


def write(folder: Path, host: Host) -> None:
    with open(folder / FILE, "w", encoding="utf-8") as file:
        for name, timer in sorted(host.timers.items()):
            line = "" if timer.line is None else timer.line
            name = name if timer.file is None else _plain(timer.name)
            groups = "|".join(timer.groups)
            print("timer", name, timer.file or "", line, groups, sep="\t", file=file)
        for one in host.calls:
            thread = f"{one.thread} native" if one.is_native else one.thread
            correlation = "" if one.correlation is None else one.correlation
            paths = (BETWEEN.join(one.path), BETWEEN.join(one.owner))
            print(
                *("call", one.kind, one.node, thread, correlation, one.begin_ns, one.end_ns),
                *(one.function, *paths),
                sep="\t", file=file,
            )  # fmt: skip


def read(folder: Path) -> Host:
    """What `write` wrote.

    Raises:
        ValueError: a line is neither of a timer nor of a call.
    """
    timers, calls = {}, []
    for line in (folder / FILE).read_text(encoding="utf-8").splitlines():
        what, *cells = line.split("\t")
        if what == "timer":
            name, file, number, groups = cells
            timer = Timer(
                name, file or None, int(number) if number else None, tuple(groups.split("|"))
            )
            timers[_plain(timer.full_name)] = timer
        elif what == "call":
            kind, node, thread, correlation, begin, end, function, path, owner = cells
            number, _, native = thread.partition(" ")
            calls.append(
                Call(
                    kind, int(node), int(number), bool(native),
                    int(correlation) if correlation else None, int(begin), int(end), function,
                    _members(path), _members(owner),
                )
            )  # fmt: skip
        else:
            raise ValueError(f"neither a timer nor a call: {line[:80]}")
    return Host(timers, calls)


def _members(path: str) -> tuple[str, ...]:
    return tuple(path.split(BETWEEN)) if path else ()


def changed(host: Host, cut: Callable[[str], str]) -> Host:
    """The same with all names and files changed by a function."""
    timers = {
        cut(name): timer._replace(name=cut(timer.name), file=timer.file and cut(timer.file))
        for name, timer in host.timers.items()
    }
    calls = [
        one._replace(
            function=cut(one.function),
            path=tuple(map(cut, one.path)), owner=tuple(map(cut, one.owner)),
        )
        for one in host.calls
    ]  # fmt: skip
    return Host(timers, calls)
