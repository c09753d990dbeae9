"""Our tables beside what TAU's own pprof printed for the same profiles, cell by cell.

The profiles are not in this repository; the environment variable TAUPY_SHARED_DATA
names the folder that has them.
"""

import io
import os
import re
from pathlib import Path

import pytest

from taupy.answers import events
from taupy.model.rows import EventRow, FlatRow
from taupy.pprof import flat, terminal
from tests.unit.pprof.build import answer, thread

SHARED = os.environ.get("TAUPY_SHARED_DATA")
FOLDER = Path(SHARED or "/nonexistent") / "tau"

pytestmark = pytest.mark.skipif(
    not (FOLDER / "README.md").is_file(),
    reason="TAUPY_SHARED_DATA names no folder with TAU's profiles",
)

CASES = ["py311_recursion", "py311_throttle", "py311_pytau_api", "py311_exceptions"]
VIEWS = {
    "a.txt": flat.FlatOptions(),
    "a_m.txt": flat.FlatOptions(sort="exclusive"),
}
FUNCTION = re.compile(r'"(.*)" (\d+) (\d+) (\S+) (\S+) 0 GROUP="([^"]*)" ?', re.DOTALL)
EVENT = re.compile(r'"(.*)" (\d+) (\S+) (\S+) (\S+) (\S+)')
PRINTED = re.compile(r" *([\d.]+) +(\S+) +(\S+) +(\d+) +(\d+) +(\d+) (.*)")


def profile(case):
    """The rows of a `profile.0.0.0`: TAU's microseconds become our nanoseconds."""
    text = (FOLDER / case / "raw" / "profile.0.0.0").read_text("utf-8")
    rows, found_events = [], []
    for line in text.split("\n"):
        if function := FUNCTION.fullmatch(line):
            name, calls, subroutines, exclusive, inclusive, groups = function.groups()
            values = round(float(inclusive) * 1000), round(float(exclusive) * 1000)
            rows.append(
                FlatRow(0, 0, 0, name, name, None, None, groups, int(calls), int(subroutines),
                        *values)
            )  # fmt: skip
        elif event := EVENT.fullmatch(line):
            name, count, *values = event.groups()
            largest, least, mean, squares = map(float, values)
            stddev = abs(squares / int(count) - mean * mean) ** 0.5
            found_events.append(
                EventRow(0, 0, 0, name, "", None, int(count), least, largest, mean, stddev)
            )
    return rows, found_events


def printed(text):
    """The cells of every row of a printed table, in order."""
    return [match.groups() for match in map(PRINTED.fullmatch, text.split("\n")) if match]


def shown(views):
    out = io.StringIO()
    terminal.show_all(views, stream=out, form="wide")  # TAU cuts no names
    return out.getvalue()


def assert_same_cells(ours, theirs):
    assert len(ours) == len(theirs) > 20
    for our, their in zip(ours, theirs, strict=True):
        assert our[:5] == their[:5]
        assert our[6].strip() == their[6].strip()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("view", VIEWS)
def test_rows_and_cells_are_those_of_taus_pprof(case, view):
    rows, _ = profile(case)
    text = shown(flat.views(answer(rows), [thread()], VIEWS[view]))
    ours = re.findall(r"^ *([\d.]+) +(\S+) +(\S+) +(\d+) +(\d+) +(\S+) (.*)$", text, re.MULTILINE)
    theirs = printed((FOLDER / case / "pprof" / view).read_text("utf-8"))
    # Tabs and tails of blanks in names are the only thing we write otherwise.
    theirs = [(*cells[:6], cells[6].replace("\t", "\\t")) for cells in theirs]
    assert_same_cells(ours, theirs)
    for our, their in zip(ours, theirs, strict=True):
        assert abs(float(our[5]) - float(their[5])) <= 0.5, their


@pytest.mark.parametrize(("view", "sort"), [("c.txt", "calls"), ("m.txt", "exclusive")])
def test_orders_are_those_of_taus_pprof_where_it_sums_no_names(view, sort):
    """c.txt and m.txt have their locations stripped: names that stay alone keep their order."""
    for case in CASES:
        rows, _ = profile(case)
        ours = [
            row[-5].split(" [{")[0].strip()
            for row in flat.views(answer(rows), [thread()], flat.FlatOptions(sort=sort))[0].rows
        ]
        theirs = [
            cells[6].strip() for cells in printed((FOLDER / case / "pprof" / view).read_text())
        ]
        alone = {name for name in ours if ours.count(name) == 1 and name in theirs}
        assert len(alone) > 20
        kept = [name for name in ours if name in alone]
        assert kept == [name for name in theirs if name in alone]


def test_a_summary_of_one_thread_is_that_thread_as_in_tau():
    rows, _ = profile("py311_throttle")
    total, mean = flat.views(answer(rows), [thread()], flat.FlatOptions(summary_only=True))
    assert [view.title for view in (total, mean)] == [
        "FUNCTION SUMMARY (total):",
        "FUNCTION SUMMARY (mean):",
    ]
    theirs = printed((FOLDER / "py311_throttle" / "pprof" / "s.txt").read_text())
    by_name = {cells[6].strip(): cells[:5] for cells in theirs}
    compared = 0
    for view in (total, mean):
        for line in shown([view]).split("\n"):
            match = re.fullmatch(r" *([\d.]+) +(\S+) +(\S+) +(\d+) +(\d+) +(\S+) (.*)", line)
            if match and match[7].strip() in by_name:
                assert match.groups()[:5] == by_name[match[7].strip()]
                compared += 1
    assert compared > 30


def test_the_whole_page_is_taus_but_for_short_times_per_call():
    rows, _ = profile("py311_recursion")
    ours = shown(flat.views(answer(rows), [thread()])).split("\n")
    theirs = (FOLDER / "py311_recursion" / "pprof" / "a.txt").read_text().split("\n")[2:]
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        match = PRINTED.fullmatch(their)
        if match and int(match[6]) <= 10:
            assert (our[:55], our[66:]) == (their[:55], their[66:].rstrip())
        else:
            assert our == their.rstrip()


def test_user_events_are_those_of_taus_pprof():
    _, found = profile("py311_pytau_api")
    (view,) = events.by_thread(found, [thread()]).values()
    ours = [line.split(None, 5) for line in shown([view]).split("\n")[4:] if line]
    text = (FOLDER / "py311_pytau_api" / "pprof" / "a.txt").read_text()
    table = text[text.index("Event Name") :].split("\n")[2:]
    theirs = [line.split(None, 5) for line in table if line and not line.startswith("-")]
    assert ours == theirs
    assert len(ours) == 3
