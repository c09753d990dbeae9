"""taupy's dataclasses and named tuples behave as those of the standard library."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle
import typing

import pytest

from taupy import dataclass as ours

KINDS = {"ours": ours, "theirs": dataclasses}


@ours.dataclass(frozen=True, slots=True, order=True)
class Place:
    x: int
    y: int = 2


class Row(ours.NamedTuple):
    """A row."""

    name: str
    size: int = 1

    @property
    def twice(self) -> int:
        return 2 * self.size


def classes(library):
    @library.dataclass(frozen=True, slots=True, order=True)
    class Point:
        x: int
        y: int = 2

    @library.dataclass(slots=True)
    class Lines:
        name: str
        rows: list[int] = library.field(default_factory=list)

    @library.dataclass(frozen=True, slots=True, kw_only=True)
    class One:
        value: float

    return Point, Lines, One


@pytest.mark.parametrize("library", KINDS.values(), ids=KINDS)
def test_values_are_equal_ordered_hashed_and_shown(library):
    point, lines, one = classes(library)
    assert point(1) == point(1, 2) == point(y=2, x=1) != point(1, 3)
    assert (point(1) == (1, 2)) is False
    assert len({point(1), point(1, 2), point(2)}) == 2
    assert point(1) < point(2) <= point(2) and point(3) > point(2) >= point(2)
    with pytest.raises(TypeError):
        _ = point(1) < 3
    assert repr(point(1)).endswith("Point(x=1, y=2)")
    assert repr(one(value=1.5)).endswith("One(value=1.5)")
    assert lines("a") == lines("a", []) and lines("a").rows is not lines("a").rows
    with pytest.raises(TypeError):
        hash(lines("a"))
    assert point.__match_args__ == ("x", "y") and one.__match_args__ == ()


@pytest.mark.parametrize("library", KINDS.values(), ids=KINDS)
def test_what_is_frozen_or_unknown_is_not_set(library):
    point, lines, one = classes(library)
    with pytest.raises(AttributeError, match="cannot assign to field 'x'"):
        point(1).x = 3
    with pytest.raises(AttributeError, match="cannot delete field 'x'"):
        del point(1).x
    changed = lines("a")
    changed.name = "b"
    assert changed.name == "b"
    with pytest.raises(AttributeError):
        changed.other = 1
    for wrong in (point, lambda: point(1, 2, 3), lambda: point(1, x=1), lambda: one(1.5)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        lines("a", z=1)


@pytest.mark.parametrize("replace", [ours.replace, dataclasses.replace])
def test_functions_of_dataclasses_take_ours(replace):
    point, lines, one = classes(ours)
    assert replace(point(1), y=5) == point(1, 5)
    assert replace(lines("a", [1]), name="b") == lines("b", [1])
    assert replace(one(value=1), value=2) == one(value=2)
    with pytest.raises(TypeError):
        replace(point(1), z=5)
    theirs = dataclasses.make_dataclass("Theirs", ["x", "y"])
    assert replace(theirs(1, 2), y=5) == theirs(1, 5)
    assert dataclasses.is_dataclass(point) and dataclasses.astuple(point(1)) == (1, 2)
    assert dataclasses.asdict(lines("a", [1])) == {"name": "a", "rows": [1]}
    assert [each.name for each in dataclasses.fields(lines)] == ["name", "rows"]


def test_copies_and_pickles_are_equal():
    assert copy.copy(Place(1)) == copy.deepcopy(Place(1)) == Place(1)
    assert pickle.loads(pickle.dumps(Place(1, 3))) == Place(1, 3)
    assert pickle.loads(pickle.dumps(Row("a", 3))) == Row("a", 3)


def test_a_named_tuple_has_defaults_properties_and_a_docstring():
    class Theirs(typing.NamedTuple):
        """A row."""

        name: str
        size: int = 1

        @property
        def twice(self) -> int:
            return 2 * self.size

    for kind in (Row, Theirs):
        row = kind("a")
        assert row == ("a", 1) and row.twice == 2 and row.size == 1
        assert row._replace(size=4) == ("a", 4) and kind._make("bc") == ("b", "c")
        assert row._asdict() == {"name": "a", "size": 1} and kind._fields == ("name", "size")
        assert kind._field_defaults == {"size": 1} and kind.__doc__ == "A row."
        assert repr(row).endswith("(name='a', size=1)") and issubclass(kind, tuple)
        assert list(kind.__annotations__) == ["name", "size"]
        for wrong in (kind, lambda kind=kind: kind("a", 1, 2), lambda kind=kind: kind(other=1)):
            with pytest.raises(TypeError):
                wrong()
        for wrong in (lambda kind=kind: kind._make("a"), lambda kind=kind: kind._make("abc")):
            with pytest.raises(TypeError, match="Expected 2 arguments, got"):
                wrong()
        with pytest.raises((TypeError, ValueError), match="nexpected field names"):
            row._replace(other=1)
        assert copy.copy(row) == row and hash(row) == hash(("a", 1))
        assert kind.size.__get__(row) == 1 and "__dict__" not in dir(row)


def rare_classes():
    class Row(ours.NamedTuple):
        name: str
        size: int = 1
        rest: tuple = ()

    @ours.dataclass(frozen=True, slots=True)
    class Frozen:
        name: str
        size: int = 1
        rest: list = ours.field(default_factory=list)

    @ours.dataclass(slots=True, kw_only=True)
    class Named:
        name: str
        size: int = 1
        rest: list = ours.field(default_factory=list)

    return Row, Frozen, Named


@pytest.mark.parametrize("at", range(3))
def test_few_objects_are_made_without_compiling_and_like_the_others(at, monkeypatch):
    kind = rare_classes()[at]
    compiled = []
    monkeypatch.setitem(ours._alone.__globals__, "exec", lambda *of: compiled.append(exec(*of)))
    few, *others = [kind(name="a") for _ in range(100)]
    assert len(compiled) == 1 and {*map(repr, others)} == {repr(few)}
    few = rare_classes()[at]
    made = few(name="a"), few(size=2, name="b"), few(name="c", rest=[3])
    assert len(compiled) == 1 and (at == 0 or made[0].rest is not made[1].rest)
    assert [(it.name, it.size, list(it.rest)) for it in made] == [
        ("a", 1, []), ("b", 2, []), ("c", 1, [3]),
    ]  # fmt: skip


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize(
    "words, values",
    [((), {}), ((), {"size": 1}), ((), {"name": 1, "other": 2}), ((), {"size": 1, "other": 2}),
     (("a", 1, 2, 3), {}), (("a",), {"name": "b"}), (("a", 1, 2), {"other": 1})],
)  # fmt: skip
def test_the_first_object_is_refused_what_later_ones_are(at, words, values):
    kind = rare_classes()[at]
    for _ in range(2):
        with pytest.raises(TypeError, match="argument"):
            kind(*words, **values)
    with pytest.raises(TypeError) if at == 2 else contextlib.nullcontext():
        rare_classes()[at]("a")
