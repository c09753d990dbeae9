"""What DuckDB and PostgreSQL answer of a store is what SQLite answers of a file, to the bit."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from taupy.errors import DatabaseError
from taupy.model.question import VALUES, Condition, Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.store.catalogue import Catalogue
from taupy.store.create import create
from taupy.store.engines import Engines
from taupy.store.push import push
from tests.builders import random_profile, small_profile
from tests.unit.profiledb.test_dialects import QUESTIONS, fill

pytest.importorskip("duckdb")
pytestmark = pytest.mark.slow


def pushed(place, address, fill_with):
    with ProfileDB.open(place / "taupy.db", create=True) as db:
        fill_with(db)
    create(address, str(place / "files"))
    for _ in push(str(place / "taupy.db"), address):
        pass
    return str(place / "taupy.db"), address


@pytest.fixture(scope="module")
def both(tmp_path_factory, new_address):
    return pushed(tmp_path_factory.mktemp("both"), new_address(), fill)


@pytest.fixture
def answered(monkeypatch):
    """For each statement that engines were asked for: whether they answered."""
    answers = []
    columns = Engines.columns

    def noted(self, reading):
        answer = columns(self, reading)
        answers.append(answer is not None)
        return answer

    monkeypatch.setattr(Engines, "columns", noted)
    return answers


def ask(name, question):
    """The rows of the answer, in their order, and what its columns are."""
    with opened(name) as db:
        table = values(db, question)
    columns = [table.row_labels(dimension) for dimension in question.by]
    columns += [list(numbers) for numbers in table.columns.values()]
    return list(zip(*columns, strict=True)), list(table.columns)


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_question_has_the_same_answer(both, question):
    file, store = both
    assert ask(store, question) == ask(file, question)


def test_random_trees_have_the_same_sums_in_any_selection(tmp_path, address, answered):
    def several(db):
        for number in range(1, 6):
            add_profile(db, random_profile(random.Random(number), number))

    file, store = pushed(tmp_path, address, several)
    chance = random.Random(5)
    dimensions = ("trial", "thread", "node", "timer", "file", "callpath", "parent", "depth")
    for _ in range(60):
        where = [
            Condition("depth", (chance.randrange(3),), "at least"),
            Condition("inclusive", (chance.randrange(200) / 7,), "at least"),
            Condition("thread", ("0.0.0", "1.0.0")),
            Condition("timer", ("t1", "t3 [{r.py} {3}]", "root")),
        ]
        question = Question(
            tuple(chance.sample(range(1, 6), chance.randrange(1, 6))),
            by=tuple(chance.sample(dimensions, chance.randrange(4))),
            where=tuple(chance.sample(where, chance.randrange(3))),
            over=chance.choice(("sum", "max")),
            values=tuple(chance.sample(VALUES, chance.randrange(1, 5))),
        )
        assert ask(store, question) == ask(file, question), question
        if "exclusive" in question.values:
            largest = replace(question, largest=chance.randrange(5))
            assert ask(store, largest) == ask(file, largest), largest
    assert answered and all(answered)


def test_values_that_are_no_integers_are_summed_in_sqlites_order(tmp_path, address, answered):
    def real(db):
        for number in (1, 2):
            add_profile(db, small_profile(number))
        for table in ("interval_value", "timer_value"):
            db.connection.execute(
                f"UPDATE {table} SET exclusive = exclusive / 7.0 WHERE trial_id = 2"
            )

    file, store = pushed(tmp_path, address, real)
    for trials, exact in (((1,), True), ((2,), False), ((1, 2), False)):
        for by in (("callpath",), ("timer",), ()):
            del answered[:]
            question = Question(trials, by=by)
            assert ask(store, question) == ask(file, question)
            assert answered == [exact], (trials, by)


def test_a_sum_that_is_too_large_is_refused_as_in_a_file(tmp_path, address):
    def large(db):
        for number in (1, 2):
            add_profile(db, small_profile(number))
        for table in ("interval_value", "timer_value"):
            db.connection.execute(f"UPDATE {table} SET exclusive = 9000000000000000000")

    file, store = pushed(tmp_path, address, large)
    for by in (("depth",), ()):
        for name in (file, store):
            with pytest.raises(DatabaseError, match="overflow"):
                ask(name, Question((1, 2), by=by))


def test_what_an_older_taupy_pushed_is_answered(tmp_path, address, answered):
    file, store = pushed(tmp_path, address, lambda db: add_profile(db, small_profile(1)))
    with Catalogue.open(store) as catalogue:
        catalogue.connection.execute("ALTER TABLE trial DROP COLUMN real_metrics")
        catalogue.connection.execute("DELETE FROM store WHERE name = 'form'")
    question = Question((1,), by=("callpath", "parent"), values=VALUES)
    assert ask(store, question) == ask(file, question)
    assert answered == [False]


def test_memory_that_does_not_suffice_leaves_no_file_here(tmp_path, address, monkeypatch):
    _, store = pushed(tmp_path, address, lambda db: add_profile(db, small_profile(1)))
    temporary, here = tmp_path / "tmp", tmp_path / "here"
    temporary.mkdir(), here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with opened(store) as db:
        duckdb = db._engines._connection
        ((spill,),) = duckdb.execute("SELECT current_setting('temp_directory')").fetchall()
        assert spill.startswith(str(temporary))
        duckdb.execute("SET memory_limit = '100MB'")
        duckdb.execute("SELECT i FROM range(4000000) AS t (i) GROUP BY i").fetchmany(1)
        assert not [*here.iterdir()]
    assert not [*temporary.iterdir()]


def test_a_lost_file_is_named(tmp_path, address):
    _, store = pushed(tmp_path, address, lambda db: add_profile(db, small_profile(1)))
    (lost,) = (tmp_path / "files").rglob("*.interval_value.*")
    lost.unlink()
    with pytest.raises(DatabaseError, match=lost.name):
        ask(store, Question((1,), by=("callpath",)))
