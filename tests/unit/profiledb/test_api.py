"""pandas frames for notebooks."""

from __future__ import annotations

import pytest

import taupy
from taupy.errors import DatabaseError, MissingMetric, NoSuchTrial
from taupy.profiledb import api
from taupy.profiledb.writer import add_profile
from tests.builders import call, deep_profile, gpu_profile, host, profile_of, samples, small_profile

pd = pytest.importorskip("pandas")


@pytest.fixture
def database(db):
    add_profile(db, small_profile(1))
    add_profile(db, deep_profile(10, 2))
    return api.Database(db.path)


def test_trials(database):
    frame = database.trials()
    assert frame["application"].tolist() == ["app", "deep"]
    assert frame["started_at"][0] == pd.Timestamp("2023-11-14 22:13:20.25", tz="UTC")
    assert database.trials("app")["id"].tolist() == [1]


def test_a_flat_profile(database):
    trial = database.trial("app/default/1")
    frame = trial.profile()
    assert frame.groupby("short_name")["exclusive"].sum().to_dict() == {
        "<module>": 15,
        "f": 50,
        "g": 97,
    }
    assert frame["exclusive"].dtype == "int64"
    assert frame.attrs == {"trial": 1, "metric": "time", "unit": "ns"}
    assert trial.profile("misses").attrs["unit"] == "count"
    assert trial.metrics()["name"].tolist() == ["time", "misses"]
    assert trial.threads()["name"].tolist() == ["MainThread", "worker"]


def test_call_paths_keep_their_ids_exact(database):
    frame = database.trial(1).callpaths()
    children = frame[frame["depth"] > 0]
    assert children["parent_id"].isin(frame["callpath_id"]).all()
    assert frame["parent_id"].isna().sum() == 2
    assert frame["callpath_id"].dtype == "int64"


@pytest.mark.parametrize("metric", ["time", "busy"])
def test_the_largest_call_paths_are_rows_of_all(db, database, metric):
    db.connection.execute("INSERT INTO derived_metric VALUES ('busy', 'misses / calls', '', '')")
    trial = database.trial(1)
    every = trial.callpaths(metric).sort_values("exclusive", ascending=False, kind="stable")
    few = trial.callpaths(metric, largest=3)
    assert few["exclusive"].tolist() == every["exclusive"].head(3).tolist()
    assert len(few.merge(every, on=["callpath_id", "exclusive", "timer"])) == 3


def test_user_events_and_metadata(database):
    trial = database.trial(1)
    assert trial.user_events()["mean"].tolist() == [4.0, 2.0]
    metadata = trial.metadata()
    assert metadata.set_index("name")["value"]["Command"] == "app.py --fast"
    assert metadata["node"].isna().tolist() == [True, True, False]


def test_empty_frames_have_their_columns(database):
    frame = database.trial("latest").user_events()
    assert len(frame) == 0
    assert "stddev" in frame.columns


def test_sql(database):
    frame = database.sql("SELECT name, name, id FROM trial WHERE id = :id", {"id": 2})
    assert frame.columns.tolist() == ["name", "name", "id"]
    assert frame.to_numpy().tolist() == [["1", "1", 2]]


def test_errors_are_taupys(database, tmp_path):
    with pytest.raises(DatabaseError, match="there is no database"):
        taupy.open(tmp_path / "none.db")
    with pytest.raises(NoSuchTrial):
        database.trial(77)
    with pytest.raises(MissingMetric):
        database.trial(1).profile("flop")


def test_nothing_is_held_open_between_questions(database, db):
    database.trial(1).profile()
    db.delete(1)
    with pytest.raises(NoSuchTrial):
        database.trial(1)


def test_values_over_time_are_a_frame(db):
    profile = gpu_profile(2)
    profile.threads[0].samples = [samples("GPU[0] sm_active", "%", [1.0, float("nan")])]
    add_profile(db, profile)
    found = api.Database(db.path).trial("latest").timeline()
    assert list(found["mean"].isna()) == [False, True] and list(found["count"]) == [2, 2]
    assert list(found["start_s"] < found["end_s"]) == [True, True]


def test_columns_without_values_have_the_type_that_they_have_with_some(db):
    add_profile(db, profile_of(host(call("f", 1, 5))))
    trial = api.Database(db.path).trial()
    types = {name: str(type) for name, type in trial.user_events().dtypes.items()}
    assert (types["node"], types["mean"]) == ("int64", "float64")
    assert types["event"] in ("str", "object")  # before pandas 3
    assert trial.profile()["line"].dtype == "Int64"
    assert trial.profile()["file"].dtype == trial.profile()["timer"].dtype
