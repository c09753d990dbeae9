"""Layers as dimensions and as a table: sums worked out by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from taupy.commands import main
from taupy.model.profile import LayerFacts, Timer
from taupy.model.question import VALUES, Condition, Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import call, host, profile_of, small_profile

TIMES = ("exclusive", "time")


def layer(name: str, kind: str) -> Timer:
    return Timer(f"{name} [{kind}]", groups=("LAYER",), short=name)


def backward_of(name: str, kind: str) -> Timer:
    groups = ("LAYER", "PHASE_BACKWARD")
    return Timer(f"backward of {name} [{kind}]", groups=groups, short=f"backward of {name}")


def network(*passes, number: int = 1):
    """Two steps: 20 ns data, Net of 100 ns with two linear layers, 50 ns backward that runs one
    again, and what else `passes` are; a thread without layers."""
    first = call(layer("body.0", "Linear"), 2, 30, [call("forward", 2, 10)])
    second = call(layer("body.1", "Linear"), 2, 20)
    body = call(layer("body", "Sequential"), 2, 15, [first, second])
    net = call(layer("Net", "Net"), 2, 5, [call("Net.forward", 2, 20, [body])])
    again = call(layer("body.0", "Linear"), 2, 7)
    backward = call("_engine_run_backward", 2, 43, [again, *passes])
    main = call("main", 1, 10, [call("data", 2, 20), net, backward])
    return profile_of(
        host(main, name="MainThread"), host(call("other", 1, 99), thread=1), number=number
    )


def by(db, *names, **more):
    table = values(db, Question((1,), by=names, values=VALUES, **more))
    labels = zip(*(table.row_labels(name) for name in names), strict=True)
    own, whole = table.column(*TIMES), table.column("inclusive", "time")
    return dict(zip(labels, zip(own, whole, strict=True), strict=True))


def test_a_moment_belongs_to_the_nearest_layer(db):
    add_profile(db, network())
    assert by(db, "layer") == {
        (None,): (10 + 20 + 43 + 99, 180 + 99),
        ("Net",): (25, 100),
        ("body",): (15, 75),
        ("body.0",): (40 + 7, 47),
        ("body.1",): (20, 20),
    }
    assert by(db, "layer_type")[("Linear",)] == (67, 67)


def test_conditions_on_layers_and_parts_of_the_whole(db):
    add_profile(db, network())
    where = (Condition("layer", ("body.0",)),)
    assert sum(own for own, _ in by(db, "timer", where=where).values()) == 47
    everything = sum(own for own, _ in by(db, "thread", "layer").values())
    assert everything == 180 + 99


def divided():
    """As `network`, with a pass of 14 ns of `body.1`, in which `body.0` runs again, and of 5 ns of
    Net; and an optimizer of 3 ns."""
    again = call(layer("body.0", "Linear"), 2, 4)
    hook = call("unpack_hook", 2, 1, [again])
    second = call(backward_of("body.1", "Linear"), 2, 2, [
        call(Timer("AddmmBackward0", groups=("AUTOGRAD",)), 2, 7, [hook]),
    ])  # fmt: skip
    net = call(backward_of("Net", "Net"), 2, 0, [
        call(Timer("MeanBackward0", groups=("AUTOGRAD",)), 2, 5)
    ])  # fmt: skip
    step = call(Timer("step", groups=("PHASE_OPTIMIZER",)), 2, 3)
    return network(second, net, step, number=3)


@pytest.fixture
def layers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TAUPY_DB", str(tmp_path / "layers.db"))
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    with ProfileDB.open(str(tmp_path / "layers.db"), create=True) as db:
        add_profile(db, network())
        add_profile(db, small_profile(2))
        add_profile(db, divided())

    def layers(*options: str, trial: str = "1") -> list[dict[str, str]]:
        assert main(["layers", trial, "--csv", *options]) == 0
        return [*csv.DictReader(io.StringIO(capsys.readouterr().out))]

    return layers


def test_own_times_add_up_to_the_thread(layers):
    rows = layers()
    assert [(row["layer"], row["layer_type"], row["calls"]) for row in rows] == [
        ("(no layer)", "", ""),
        ("body.0", "Linear", "4"),
        ("Net", "Net", "2"),
        ("body.1", "Linear", "2"),
        ("body", "Sequential", "2"),
    ]
    assert [float(row["own_ns"]) for row in rows] == [73, 47, 25, 20, 15]
    assert sum(float(row["share_percent"]) for row in rows) == pytest.approx(100)
    assert {row["layer"]: row["forward_ns"] for row in rows} == {
        "(no layer)": "",
        "body.0": "40.0",
        "Net": "100.0",
        "body.1": "20.0",
        "body": "75.0",
    }
    assert {row["backward_ns"] for row in rows} == {""}
    assert {row["layer"]: row["recompute_ns"] for row in rows if row["recompute_ns"]} == {
        "body.0": "7.0"
    }
    assert {row["gpu_ns"] for row in rows} == {""}
    assert {row["thread"] for row in rows} == {"0"}


def test_by_class_by_depth_and_as_a_tree(layers):
    linear = {row["layer_type"]: row for row in layers("--by", "type")}["Linear"]
    assert (linear["own_ns"], linear["calls"]) == ("67.0", "6")
    body = {row["layer"]: row for row in layers("--depth", "1")}["body"]
    assert (body["own_ns"], body["forward_ns"], body["calls"]) == ("82.0", "75.0", "2")
    assert [row["layer"] for row in layers("--tree")] == [
        "(no layer)", "Net", "  body", "    body.0", "    body.1",
    ]  # fmt: skip
    assert len(layers("--limit", "2")) == 2


def known(*passes, number: int = 4):
    """As `network`, with facts of three layers: 4 of 20 calls of the first were counted."""
    profile = network(*passes, number=number)
    at = {timer.name: place for place, timer in enumerate(profile.timers)}
    more = {"input": "2x3", "output": "2x5"}
    profile.layers = [
        LayerFacts(at["body.0 [Linear]"], 0, 20, 80, **more, output_bytes=40, calls=1, flop=60,
                   backward_flop=120),
        LayerFacts(at["body.1 [Linear]"], 0, 15, 60, **more, output_varies=True, output_bytes=40,
                   calls=1, flop=70, unknown=("aten::relu",)),
        LayerFacts(at["body [Sequential]"], 0, 0, 0, calls=1, unknown=("aten::mul", "aten::relu")),
    ]  # fmt: skip
    return profile


def test_backward_flop_are_those_of_the_backward_passes_and_unknown_if_none_was_counted(
    layers, tmp_path
):
    passes = call(backward_of("body.0", "Linear"), 6, 1)
    first, second, third = known().layers
    numbers = []
    with ProfileDB.open(str(tmp_path / "layers.db"), create=True) as db:
        for number, counted in ((8, 2), (9, 0)):
            profile = known(passes, number=number)
            profile.layers = [replace(first, backward_passes=counted), second, third]
            numbers.append(str(add_profile(db, profile)))
    (some,) = (r for r in layers(trial=numbers[0]) if r["layer"] == "body.0")
    assert some["backward_flop"] == str(120 * 6 / 2)
    for by, name in (("layer", "body.0"), ("type", "Linear")):
        (none,) = (
            r
            for r in layers("--by", by, trial=numbers[1])
            if r["layer_type" if by == "type" else by] == name
        )
        assert none["backward_flop"] == ""


def test_what_layers_are_made_of_and_compute(layers, tmp_path, capsys):
    with ProfileDB.open(str(tmp_path / "layers.db"), create=True) as db:
        trial = add_profile(db, known())
    rows = {row["layer"]: row for row in layers(trial=str(trial))}
    names = ("parameters", "parameter_bytes", "flop", "backward_flop", "output_bytes")
    assert [rows["body.0"][name] for name in names] == ["20", "80", "240.0", "480.0", "40"]
    assert [rows["body.1"][name] for name in names] == ["15", "60", "140.0", "", "40"]
    assert [rows["body"][name] for name in names] == ["0", "0", "", "", ""]
    assert {rows["Net"][name] for name in names} == {""}
    assert [rows["body.1"][name] for name in ("input", "output")] == ["2x3", "2x5 (varies)"]
    assert rows["body"]["without_formula"] == "aten::mul aten::relu"
    (linear,) = (r for r in layers("--by", "type", trial=str(trial)) if r["layer_type"] == "Linear")
    assert [linear[name] for name in names] == ["35", "140", "380.0", "480.0", ""]
    assert main(["layers", str(trial)]) == 0
    text = capsys.readouterr().out
    assert "counted in up to 1 of 4 calls of a layer" in text
    assert "no formula for: aten::mul, aten::relu" in text


def test_facts_of_layers_come_back(tmp_path):
    profile = known()
    with ProfileDB.open(str(tmp_path / "facts.db"), create=True) as db:
        stored = read_profile(db, add_profile(db, profile))
    named = {profile.timers[each.timer].name: replace(each, timer=0) for each in profile.layers}
    found = {stored.timers[each.timer].name: replace(each, timer=0) for each in stored.layers}
    assert found == named


def test_a_trial_without_layers_says_why(layers, capsys):
    assert main(["layers", "2"]) != 0
    assert "trial 2 has no layers" in capsys.readouterr().err


def test_backward_passes_belong_to_their_layers(db, layers):
    add_profile(db, divided())
    assert by(db, "layer")[("body.1",)][0] == 20 + 2 + 7 + 1
    assert by(db, "layer_type")[("Linear",)][0] == 67 + 10 + 4
    rows = {row["layer"]: row for row in layers(trial="3")}
    assert {name: float(row["own_ns"]) for name, row in rows.items()} == {
        "(no layer)": 73,
        "(optimizer)": 3,
        "Net": 25 + 5,
        "body": 15,
        "body.0": 40 + 7 + 4,
        "body.1": 20 + 2 + 7 + 1,
    }
    columns = ("forward_ns", "backward_ns", "recompute_ns", "calls")
    assert {name: tuple(row[column] for column in columns) for name, row in rows.items()} == {
        "(no layer)": ("", "", "", ""),
        "(optimizer)": ("", "", "", ""),
        "Net": ("100.0", "15.0", "", "2"),
        "body": ("75.0", "10.0", "", "2"),
        "body.0": ("40.0", "", "11.0", "6"),
        "body.1": ("20.0", "10.0", "", "2"),
    }
    assert [row["layer"] for row in layers("--tree", trial="3")][-4:] == [
        "Net", "  body", "    body.0", "    body.1",
    ]  # fmt: skip
    assert {row["layer_type"] for row in layers("--by", "type", trial="3")} == {
        "(no layer)", "(optimizer)", "Net", "Sequential", "Linear",
    }  # fmt: skip


def test_layers_of_a_list_stand_in_the_order_of_their_numbers(tmp_path, monkeypatch, capsys):
    times = {10: 30, 2: 1, 1: 20}
    blocks = [call(layer(f"b.{number}", "Block"), 1, time) for number, time in times.items()]
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        add_profile(
            db, profile_of(host(call("main", 1, 1, [call(layer("Net", "N"), 1, 5, blocks)])))
        )
    monkeypatch.chdir(tmp_path)
    assert main(["layers", "--tree", "--csv"]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert [row["layer"].strip() for row in rows][-4:] == ["Net", "b.1", "b.2", "b.10"]


def renamed(profile, names):
    for before, after in names.items():
        profile.timers = [
            layer(after, one.name.split()[1].strip("[]")) if one.short == before else one
            for one in profile.timers
        ]
    return profile


def test_layers_of_different_names_share_a_row_of_a_pivot(tmp_path, monkeypatch, capsys):
    """`body.0` under a wrapper is the same; `body.1` is `tail` there, the only linear one left."""
    monkeypatch.setenv("TAUPY_DB", str(tmp_path / "layers.db"))
    with ProfileDB.open(str(tmp_path / "layers.db"), create=True) as db:
        add_profile(db, network())
        other = network(number=2)
        add_profile(db, renamed(other, {"body.0": "module.body.0", "body.1": "tail"}))
    pivot = ["pivot", "--by", "layer", "--columns", "trial"]
    assert main([*pivot, "--csv"]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    times = {name: cells for name, *cells in rows}
    assert times["body.0"] == ["47.0", "47.0"] and times["body.1"] == ["20.0", "20.0"]
    assert {*times} == {"(no layer)", "Net", "body", "body.0", "body.1"}
    assert main(pivot) == 0
    text = capsys.readouterr().out
    assert "layers matched without a wrapper's prefix: body.0 = module.body.0" in text
    assert "layers matched by class and position: body.1 = tail" in text
    assert main([*pivot, "--match", "exact", "--csv"]) == 0
    assert "tail,,20.0" in capsys.readouterr().out
