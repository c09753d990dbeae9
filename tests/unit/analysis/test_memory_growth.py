"""What holds memory that a routine keeps, told from its source."""

import ast
from dataclasses import replace

import pytest

from taupy.analysis.findings.memory_growth import _grows_to_the_end
from taupy.analysis.findings.memory_holders import _graphs, held
from taupy.analysis.findings.trial import Moment
from taupy.model.profile import Timer
from taupy.profiledb.writer import add_profile
from taupy.report.evidence import trial_of
from tests.builders import call, host, profile_of
from tests.unit.profiledb.conftest import db  # noqa: F401 - a fixture

CLASS = """
class Session:
    seen = {{}}
    def handle(self, key, body):
        {adds}
    def other(self):
        {reads}
"""


def holder(adds, reads="pass"):
    text = CLASS.format(adds=adds, reads=reads)
    function = next(part for part in ast.walk(ast.parse(text))
                    if isinstance(part, ast.FunctionDef) and part.name == "handle")  # fmt: skip
    what = held(function, text)
    return what and what.name


@pytest.mark.parametrize("name", ["Session.seen", "self.seen"])
def test_a_container_of_a_class_is_one_that_all_its_instances_fill(name):
    assert holder(f"{name}[key] = body") == name
    assert holder(f"{name}[key] = body", "return self.seen.get(1)") == name


@pytest.mark.parametrize(
    "reads", ["return sum(self.seen.values())", "Session.seen.clear()", "del self.seen[1]"]
)
def test_one_that_is_read_as_a_whole_or_emptied_under_another_name_is_no_leak(reads):
    assert holder("Session.seen[key] = body", reads) is None


LOOP = """
def watch(camera, net):
    {first}
    total = 0
    for number, frame in enumerate(camera):
        {adds}
    {last}
"""


def in_loop(adds, first="frames = []", last="print(len(frames))", *, graphs=False):
    text = LOOP.format(adds=adds, first=first, last=last)
    function = ast.parse(text).body[0]
    what = _graphs(function, text) if graphs else held(function, text, is_often=False)
    return what and what.name


def test_a_list_that_a_loop_fills_and_nothing_reads_holds_what_it_keeps():
    assert in_loop("frames.append(frame)") == "frames"
    assert in_loop("frames[number] = frame; total += frames[number]", "frames = {}") == "frames"


@pytest.mark.parametrize(
    ("adds", "first", "last"),
    [
        ("frames.append(frame)", "frames = []", "return frames"),
        ("frames.append(frame)", "frames = []", "print(sum(frames))"),
        ("frames.append(frame); frames.pop(0)", "frames = []", "pass"),
        ("frames = []; frames.append(frame)", "pass", "pass"),
        ("frames.append(frame)", "frames = collections.deque(maxlen=3)", "pass"),
        ("pass", "frames = []; frames.append(camera)", "pass"),
    ],
    ids=["returned", "summed", "emptied", "new in each turn", "limited", "outside of the loop"],
)
def test_a_result_or_a_list_that_does_not_grow_holds_nothing(adds, first, last):
    assert in_loop(adds, first, last) is None


@pytest.mark.parametrize(
    ("adds", "name"),
    [
        ("loss = net(frame); total = total + loss.abs()", "total"),
        ("total += net(frame).mean()", "total"),
        ("out = net(frame); loss = out - 1; loss.backward(); frames.append(loss)", "frames"),
        ("self.sum += self.net(frame)", "self.sum"),
    ],
)
def test_losses_that_are_added_up_as_they_are_hold_their_graphs(adds, name):
    assert in_loop(adds, graphs=True) == name


@pytest.mark.parametrize(
    "adds",
    [
        "total += net(frame).item()",
        "loss = net(frame).detach(); total += loss",
        "frames.append(float(net(frame)))",
        "total += (net(frame) == number).sum()",
        "total += frame.sum()",  # of no network
        "total += len(frame)",
        "total = 0; total += net(frame)",  # of one turn
        "total += net(frame); total.backward()",
        "total += helper(frame)",  # whose source is elsewhere
    ],
)
def test_what_has_no_graph_or_needs_it_is_no_fault(adds):
    text = "from other import helper\n" + LOOP.format(first="frames = []", adds=adds, last="pass")
    function = ast.parse(text).body[1]
    assert _graphs(function, text) is None


MS, MIB = 1_000_000, 1 << 20


@pytest.mark.parametrize(
    ("mib", "grows"),
    [
        ([20, 140, 260, 380, 500], True),  # in half a second
        ([20, 140, 260, 380, 500, 250], True),  # its exit gives it back
        ([20, 260, 500], False),  # two parts are no trend
        ([20, 500, 500, 500, 500], False),  # loaded at the start
        ([20, 20, 20, 20, 500], False),
    ],
)
def test_half_a_second_of_growth_until_the_exit_is_growth_to_the_end(db, mib, grows):  # noqa: F811
    leaving = call(Timer("exit", groups=("EXIT",)), 1, 150 * MS)
    profile = profile_of(host(call("main", 1, 510 * MS, [leaving])), duration_ns=660 * MS)
    trial = trial_of(db, db.trial(add_profile(db, profile)))
    moments = [Moment(80.0 * MS * at, size * MIB) for at, size in enumerate(mib, start=2)]
    assert _grows_to_the_end(replace(trial, memory=moments)) == grows
