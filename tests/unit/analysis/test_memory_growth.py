"""What holds memory that a routine keeps, told from its source."""

import ast

import pytest

from taupy.analysis.findings.memory_growth import _held

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
