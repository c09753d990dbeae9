"""What `taupy.open` gives: trials by conditions, kernels, comparisons, pivots, the gate."""

from __future__ import annotations

import pytest

import taupy
from taupy.errors import NoSuchTrial, UsageError
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, database_at, gpu_profile, host, profile_of, small_profile, steps
from tests.unit.profiledb import test_stamped
from tests.unit.profiledb.test_layers import network

pd = pytest.importorskip("pandas")

UUID = "01900000-0000-7000-8000-{:012d}"


@pytest.fixture
def db(tmp_path):
    with database_at(tmp_path / "taupy.db") as writer:
        add_profile(writer, gpu_profile(uuid=UUID.format(1)))
        add_profile(writer, gpu_profile(uuid=UUID.format(2), metadata={"batch size": "32"}))
        add_profile(writer, small_profile(3))
        writer.tag(2, "base")
    return taupy.open(tmp_path / "taupy.db")


def test_trials_by_conditions(db):
    assert db.trials(gpu="h200")["id"].tolist() == [1, 2, 3]
    assert db.trials(gpu="H200", application="train")["id"].tolist() == [1, 2]
    assert db.trials(meta={"batch_size": 32})["id"].tolist() == [2]
    assert db.trials("train", tag="base")["id"].tolist() == [2]
    assert db.trial(application="train").row.id == 2
    assert db.trial("latest", gpu="H200").row.id == 3
    with pytest.raises(NoSuchTrial, match="GPUs NVIDIA H200"):
        db.trials(gpu="B200")


def test_kernels(db):
    frame = db.trial(1).kernels()
    assert frame["short_name"].tolist() == ["gemm", "Memcpy HtoD", "relu"]
    assert frame["time_ns"].tolist() == [5000, 2000, 800]
    assert db.trial(1).launches()["calls"].sum() == 30
    assert db.trial(1).kernels(by="group")["group"].tolist() == ["GPU_KERNEL", "GPU_COPY"]
    with pytest.raises(UsageError, match="has no steps"):
        db.trial(1).kernels(by="step")
    assert db.trial(3).kernels().empty


def test_a_comparison(db):
    frame = db.compare(1, 3)
    assert frame.attrs["sides"] == {"A": [1], "B": [3]}
    assert frame.attrs["unit"] == "ns"
    assert any("Application was train, is app" in text for text in frame.attrs["not_comparable"])
    found = frame.set_index("timer")
    assert found["b_ns"]["f [{app.py}{3}]"] == 50
    assert pd.isna(found["a_ns"]["f [{app.py}{3}]"])  # absent is not zero
    assert found["in"]["f [{app.py}{3}]"] == "only B"
    assert found["a_ns"]["void gemm<float, 128>(float*, int)"] == 5000
    assert set(frame["table"]) == {"host", "gpu"}


@pytest.fixture
def training(tmp_path):
    profile = network()
    profile.threads[0].steps = [steps([9_000_000, 1_000_000]), steps([500_000], "validation")]
    with database_at(tmp_path / "training.db") as writer:
        add_profile(writer, profile)
        add_profile(writer, small_profile(2))
    return taupy.open(tmp_path / "training.db")


def test_steps_of_a_trial(training):
    frame = training.trial(1).steps()
    assert frame["kind"].tolist() == ["training", "training", "validation"]
    assert frame["time_ns"].tolist() == [9e6, 1e6, 5e5]
    assert frame["step"].dtype == "Int64"
    assert frame["loss"][0] == 1.0 and pd.isna(frame["loss"][1])
    assert training.trial(2).steps().empty


def test_layers_of_a_trial_add_up_to_the_time_of_its_thread(training):
    frame = training.trial(1).layers()
    own = frame.set_index("layer")["own_ns"]
    assert (own["Net"], own["body"], own["body.0"]) == (25, 15, 47)
    assert own.sum() == 180
    assert set(training.trial(1).layers(by="type")["layer_type"]) >= {"Net", "Sequential", "Linear"}
    assert training.trial(1).layers(depth=1)["layer"].tolist().count("body") == 1
    with pytest.raises(UsageError, match="by must be one of layer, layer_type"):
        training.trial(1).layers(by="class")


def test_phases_of_a_trial_add_up_to_the_time_of_its_thread(training):
    frame = training.trial(1).phases()
    assert {"forward", "(no phase)"} <= set(frame["phase"])
    assert frame["time_ns"].sum() == 180


def test_steps_divide_phases_and_what_a_trace_has_stamped(training, tmp_path):
    of_steps = training.trial(1).phases(by="step").groupby(["kind", "step"])["time_ns"].sum()
    assert of_steps.to_dict() == {
        ("training", 1): 9e6, ("training", 2): 1e6, ("validation", 1): 5e5,
    }  # fmt: skip
    with pytest.raises(UsageError, match="--trace=host"):
        training.trial(1).layers(by="step")
    with ProfileDB.open(tmp_path / "training.db", readonly=False) as writer:
        add_profile(writer, test_stamped.training(3))
    frame = training.trial(3).layers(by="step")
    assert frame[frame["thread"] == 0].groupby("step")["own_ns"].sum().to_dict() == {1: 100, 2: 100}


def test_columns_have_the_same_types_whatever_is_missing(db):
    one, other = db.compare(1, 2), db.compare(1, 3)
    assert one.columns.tolist() == other.columns.tolist()
    for name in ("a_ns", "b_ns", "difference_ns", "ratio", "impact_ns", "share_a", "calls_b"):
        assert one[name].dtype == other[name].dtype == "float64", name
    assert one["line"].dtype == other["line"].dtype == "Int64"


def test_kernels_events_and_metadata_compare(db):
    kernels = db.compare(1, 2, by="kernel", metric="flop_rate")
    assert kernels["a_flop_s"].tolist() == [pytest.approx(8e11)]
    assert db.compare(1, 2, by="event")["timer"].tolist() == ["Bytes copied from Host to Device"]
    facts = db.compare(1, 2, by="metadata").set_index("name")
    assert (facts["b"]["batch size"], facts["same"]["batch size"]) == ("32", "no")


def test_a_table_given_as_a_dict(db):
    frame = db.compare(1, 2, by="kernel", table={"math": ["*gemm*", "relu*"]})
    assert frame.set_index("timer")["a_ns"]["math"] == 5800


def test_a_pivot(db):
    frame = db.pivot("train", rows=["application", "kernel"], columns=["id"])
    assert frame.columns.tolist() == ["application", "kernel", "1", "2"]
    assert frame["1"].tolist() == [5000, 2000, 800]
    assert frame.attrs["metrics"] == {"time": "ns"}


@pytest.mark.parametrize("wrong", [{"by": "x"}, {"value": "x"}, {"match": "x"}, {"over": "x"}])
def test_a_word_that_is_none_is_refused_and_the_others_are_named(db, wrong):
    (name,) = wrong
    with pytest.raises(UsageError, match=f"{name} must be one of .*, not 'x'"):
        db.compare(1, 2, **wrong)
    if name != "by":
        with pytest.raises(UsageError, match=f"{name} must be one of"):
            db.pivot(**wrong)


def test_the_gate(tmp_path):
    with database_at(tmp_path / "gate.db") as writer:
        for number in range(10):
            time = (1000 + number) * (1 if number < 5 else 2)
            work = call(Timer("f", "a.py", 1), 3, time)
            profile = profile_of(
                host(call("main", 1, 0, [work])),
                uuid=UUID.format(number),
                experiment="before" if number < 5 else "after",
            )
            add_profile(writer, profile)
    db = taupy.open(tmp_path / "gate.db")
    frame = db.gate("time of f > +5%", baseline="app/before", trials=["app/after"])
    assert frame["verdict"].tolist() == ["FAILED"]
    assert frame["change"][0] == pytest.approx(1.01, abs=0.01)
    assert frame["p_adjusted"][0] == pytest.approx(2 / 252)
    named = {"table": {"mine": "f"}, "over": "max"}
    frame_of_table = db.gate(
        "time of mine > +5%", baseline="app/before", trials=["app/after"], **named
    )
    assert frame_of_table["verdict"].tolist() == ["FAILED"]
    assert "judged 1: 1 failed, 0 undecided, 0 passed" in frame.attrs.pop("notes")
    assert frame.attrs == {"exit_code": 3, "not_comparable": []}


def test_notebooks_show_databases_and_trials(db):
    assert "3 trials" in db._repr_html_() and "<table" in db._repr_html_()
    shown = db.trial(1)._repr_html_()
    assert "train/default/1 · trial 1" in shown and "<table" in shown
    assert "<float" not in shown  # names are not markup


def test_a_trial_without_times_is_shown_by_what_it_has(tmp_path):
    with database_at(tmp_path / "counted.db") as writer:
        add_profile(writer, profile_of(host(call("f", 1, {"misses": 7}))))
    shown = taupy.open(tmp_path / "counted.db").trial()._repr_html_()
    assert "exclusive misses [count]" in shown and ">7<" in shown


@pytest.mark.parametrize("alpha", [0, 1, -1, 2**70, float("nan")])
def test_what_is_no_probability_is_refused_as_in_the_command(db, alpha):
    for ask in (
        lambda: db.gate("time > +5%", baseline=1, alpha=alpha),
        lambda: db.compare(1, 2, alpha=alpha),
    ):
        with pytest.raises(UsageError, match="alpha must be between 0 and 1, not"):
            ask()
    for share in (-1, float("nan")):
        with pytest.raises(UsageError, match="numbers of at least 0"):
            db.compare(1, 2, min_share=share)
