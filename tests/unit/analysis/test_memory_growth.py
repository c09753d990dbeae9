"""What holds memory that a routine keeps, told from its source."""

import ast
from dataclasses import replace

import pytest

from taupy.analysis.findings.memory_growth import _grows_to_the_end, _held
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
    held = _held(function, text)
    return held and held.name


@pytest.mark.parametrize("name", ["Session.seen", "self.seen"])
def test_a_container_of_a_class_is_one_that_all_its_instances_fill(name):
    assert holder(f"{name}[key] = body") == name
    assert holder(f"{name}[key] = body", "return self.seen.get(1)") == name


@pytest.mark.parametrize(
    "reads", ["return sum(self.seen.values())", "Session.seen.clear()", "del self.seen[1]"]
)
def test_one_that_is_read_as_a_whole_or_emptied_under_another_name_is_no_leak(reads):
    assert holder("Session.seen[key] = body", reads) is None


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
