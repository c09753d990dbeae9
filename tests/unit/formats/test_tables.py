"""Tables of a profile: CSV, Parquet, Hatchet's JSON."""

from __future__ import annotations

import csv
import json
from random import Random

import pytest

from taupy.errors import FormatError
from taupy.formats import csv_, hatchet, parquet, registry
from taupy.model.profile import Timer
from taupy.model.progress import SILENT
from taupy.model.question import Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import call, gpu_profile, host, profile_of, random_profile, small_profile
from tests.unit.formats.comparing import flat_by_name, one, paths

CSV = {format.name: format for format in csv_.FORMATS}
PARQUET = {format.name: format for format in parquet.FORMATS}


def rows(profile, folder, name="csv"):
    file = folder / "x.csv"
    CSV[name].write(profile, file, SILENT)
    with open(file, newline="", encoding="utf-8") as content:
        return list(csv.DictReader(content))


def test_the_flat_table_has_each_routine_with_each_metric_and_its_unit(tmp_path):
    found = rows(small_profile(), tmp_path)
    assert {
        (r["thread"], r["timer"], r["metric"], r["unit"]): (
            r["calls"], r["subroutines"], r["inclusive"], r["exclusive"])
        for r in found
    } == {
        ("0", "<module> [{app.py}{1}]", "time", "ns"): ("1", "7", "150", "10"),
        ("0", "f [{app.py}{3}]", "time", "ns"): ("5", "7", "90", "50"),
        ("0", "g [{app.py}{9}]", "time", "ns"): ("9", "0", "90", "90"),
        ("0", "<module> [{app.py}{1}]", "misses", "count"): ("1", "7", "15", "0"),
        ("0", "f [{app.py}{3}]", "misses", "count"): ("5", "7", "7", "5"),
        ("0", "g [{app.py}{9}]", "misses", "count"): ("9", "0", "10", "10"),
        ("1", "<module> [{app.py}{1}]", "time", "ns"): ("1", "1", "12", "5"),
        ("1", "g [{app.py}{9}]", "time", "ns"): ("1", "0", "7", "7"),
    }  # fmt: skip
    assert {r["groups"] for r in found} == {"PYTHON", "PYTHON|USER"}
    assert {(r["file"], r["line"]) for r in found} == {("app.py", n) for n in ("1", "3", "9")}


def test_the_flat_table_of_a_gpu_has_its_kernels_and_no_value_that_was_not_measured(tmp_path):
    found = [r for r in rows(gpu_profile(), tmp_path) if r["context"] == "1"]
    assert [(r["short_name"], r["metric"], r["inclusive"]) for r in found] == [
        ("gemm", "time", "5000"),
        ("relu", "time", "800"),
        ("gemm", "flop_fp32", "4000000.0"),
        ("Memcpy HtoD", "time", "2000"),
    ]


def test_the_table_of_call_paths_leads_from_each_row_to_its_caller(tmp_path):
    profile = small_profile()
    found = [r for r in rows(profile, tmp_path, "csv-callpaths") if r["metric"] == "time"]
    by_row = {(r["thread"], r["row"]): r for r in found}
    for row in found:
        above = by_row.get((row["thread"], row["parent_row"]))
        assert row["path"] == (f"{above['path']} => " if above else "") + row["timer"]
        assert int(row["depth"]) == (int(above["depth"]) + 1 if above else 0)
    expected = [v for m in profile.threads for v in paths(profile, m).values()]
    assert [(int(r["calls"]), int(r["inclusive"])) for r in found] == [
        (calls, values["time"][0]) for calls, _, values in expected
    ]


def test_the_table_of_events_has_their_call_paths(tmp_path):
    memory, reading = rows(small_profile(), tmp_path, "csv-events")
    assert (memory["event"], memory["callpath"], memory["mean"]) == ("memory", "", "4.0")
    assert (reading["event"], reading["count"], reading["stddev"]) == ("read", "2", "1.0")
    assert reading["callpath"].count(" => ") == 2


def test_cells_that_spreadsheets_would_compute_are_text(tmp_path):
    names = ["=1+1", "+x", "-x", "@x", "a\nb", "\tx", 'quote"d, comma']
    profile = profile_of(host(call("main", 1, 1, [call(Timer(n), 1, 1) for n in names])))
    found = {row["timer"] for row in rows(profile, tmp_path)}
    assert found >= {"'=1+1", "'+x", "'-x", "'@x", "a\\nb", "\\tx", 'quote"d, comma'}


def test_a_long_call_path_is_spelled_out_from_its_end(tmp_path):
    deepest = call("f", 1, 1)
    for _ in range(300):
        deepest = call("f", 1, 1, [deepest])
    last = rows(profile_of(host(deepest)), tmp_path, "csv-callpaths")[-1]
    assert last["path"].startswith("... => f") and last["path"].count("f") == 100


@pytest.mark.parametrize("name", ["parquet", "parquet-callpaths", "parquet-events"])
def test_parquet_has_the_rows_of_csv_with_types(tmp_path, name):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    profile = gpu_profile() if name != "parquet-events" else small_profile()
    file = tmp_path / "x.parquet"
    PARQUET[name].write(profile, file, SILENT)
    table = pq.read_table(file)
    text = rows(profile, tmp_path, name.replace("parquet", "csv"))
    assert table.column_names == list(text[0])
    as_text = [
        {key: "" if value is None else str(value) for key, value in row.items()}
        for row in table.to_pylist()
    ]
    # Where one value of a column is real, all are.
    assert [{k: v.removesuffix(".0") for k, v in row.items()} for row in as_text] == [
        {k: v.removesuffix(".0") for k, v in row.items()} for row in text
    ]
    assert str(table.schema.field("node").type) == "int64"
    assert table.schema.metadata[b"taupy.uuid"] == profile.uuid.encode()


def test_parquet_of_whole_values_is_whole(tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    PARQUET["parquet"].write(small_profile(), tmp_path / "x.parquet", SILENT)
    assert str(pq.read_schema(tmp_path / "x.parquet").field("inclusive").type) == "int64"


@pytest.mark.parametrize("made", [small_profile, gpu_profile])
def test_hatchets_file_holds_the_graph_and_its_values(tmp_path, made):
    profile = made()
    file = tmp_path / "x.json"
    hatchet.write(profile, file, SILENT)
    document = json.loads(file.read_text())
    assert len(document["graph"]) == len(profile.threads)
    values = {row["node"]: row for row in document["dataframe"]}
    for graph, measured in zip(document["graph"], profile.threads, strict=True):
        expected = list(paths(profile, measured).items())
        parent = {child: int(node) for node, one in graph.items() for child in one["children"]}
        for node, (path, (calls, subroutines, metrics)) in zip(graph, expected, strict=True):
            row = values[int(node)]
            assert graph[node]["data"]["name"] == row["name"] == path[-1][0]
            assert (int(node) in parent) == (len(path) > 1)
            if len(path) > 1:
                assert values[parent[int(node)]]["name"] == path[-2][0]
            assert (row["calls"], row["subroutines"]) == (calls, subroutines)
            for metric, (inclusive, exclusive) in metrics.items():
                assert (row[f"{metric} (inc)"], row[metric]) == (inclusive, exclusive)
    assert document["inclusive_metrics"] == [f"{m} (inc)" for m in document["exclusive_metrics"]]


def test_hatchet_itself_reads_the_file(tmp_path):
    hatchet_itself = pytest.importorskip("hatchet", reason="llnl-hatchet is not installed")
    profile = small_profile()
    file = tmp_path / "x.json"
    hatchet.write(profile, file, SILENT)
    frame = hatchet_itself.GraphFrame.from_json(file.read_text()).dataframe
    sums = frame[frame.thread == "0.0.0"].groupby("name")["time"].sum().to_dict()
    assert sums == {
        name: values[3] for name, values in flat_by_name(profile, profile.threads[0]).items()
    }


@pytest.mark.parametrize("made", [small_profile, gpu_profile, lambda: random_profile(Random(5))])
def test_hatchets_file_comes_back_with_units_and_threads(tmp_path, made):
    profile = made()
    path = tmp_path / "x.hatchet.json"
    hatchet.write(profile, path, SILENT)
    assert registry.recognised(path).name == "hatchet"
    again = one(hatchet, path)

    def values(profile):
        return {
            (measured.thread.node, measured.thread.context, measured.thread.thread): {
                tuple(name for name, _ in path): (calls, metrics)
                for path, (calls, _, metrics) in paths(profile, measured).items()
            }
            for measured in profile.threads
        }

    found, known = values(again), values(profile)
    assert found.keys() == known.keys()
    for thread, rows in known.items():
        assert found[thread].keys() == rows.keys()
        for path, (calls, metrics) in rows.items():
            assert found[thread][path][0] == calls
            assert metrics.items() <= found[thread][path][1].items()
    assert {metric.name: metric.unit for metric in again.metrics}.items() <= {
        metric.name: metric.unit for metric in profile.metrics
    }.items()


FOREIGN = {
    "graph": [
        {
            "0": {"data": {"name": "main", "type": "function"}, "children": [1, 2]},
            "1": {"data": {"name": "f", "file": "a.c", "line": 3}, "children": []},
            "2": {"data": {"name": "g"}, "children": [1]},
        }
    ],
    "dataframe": [
        {"node": node, "rank": rank, "time": 1.5, "time (inc)": total, "name": "x"}
        for rank in (0, 1)
        for node, total in ((0, 4.5), (1, 1.5), (2, 1.5))
    ],
    "dataframe_indices": ["node", "rank"],
    "exclusive_metrics": ["time"],
    "inclusive_metrics": ["time (inc)"],
}


def test_times_of_hatchets_own_files_have_no_unit_and_are_not_taken_for_nanoseconds(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(FOREIGN))
    profile = one(hatchet, path)
    assert [metric.name for metric in profile.metrics] == ["hatchet.time"]
    assert [measured.thread.node for measured in profile.threads] == [0, 1]
    found = paths(profile, profile.threads[0])
    shown = {tuple(name for name, _ in path): values for path, (_, _, values) in found.items()}
    assert shown[("main",)] == {"hatchet.time": (4.5, 1.5)}
    assert shown[("main", "f [{a.c}{3}]")] == {"hatchet.time": (1.5, 1.5)}
    assert shown[("main", "g")] == {"hatchet.time": (1.5, 1.5)}
    assert "do not state the unit" in profile.metadata[registry.IMPORT_NOTES]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"graph": 3}, "graph: not a list"),
        ({"graph": [{"0": {"data": {}, "children": [9]}}]}, "a child that does not exist"),
        ({"graph": [{"0": {"data": {}, "children": [0]}}]}, "a cycle of nodes"),
        ({"graph": [{"0": 1}]}, "not a frame"),
        ({"dataframe": [{"node": 7}]}, "node 7 is not in the graph"),
        ({"dataframe": []}, "no row"),
        ({"dataframe": [{"node": 0, "time": "x"}]}, "not a number"),
        ({"dataframe": [{"node": 0, "calls": -1}]}, "-1 calls"),
        ({"dataframe": [{"node": 0, "rank": -1}]}, "rank and thread"),
        ({"exclusive_metrics": [1]}, "not a text"),
    ],
)
def test_what_is_no_hatchet_file_is_refused(tmp_path, change, said):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**FOREIGN, **change}))
    with pytest.raises(FormatError, match=said):
        one(hatchet, path)


@pytest.mark.parametrize(
    "profile", [small_profile(), gpu_profile(), *(random_profile(Random(n)) for n in range(4))]
)
def test_the_flat_table_has_the_sums_that_questions_get(tmp_path, profile):
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, profile)
        profile, answers = read_profile(db, trial), asked(db, trial, profile.metrics)
    table = {}
    for row in rows(profile, tmp_path):
        place = tuple(int(row[name]) for name in ("node", "context", "thread"))
        numbers = [float(row[name]) if row[name] else None for name in SUMS]
        table[place, row["timer"], row["groups"], row["metric"]] = numbers
    assert table == answers
    assert table


SUMS = ("calls", "subroutines", "inclusive", "exclusive")


def asked(db, trial, metrics):
    """Place, timer, groups and metric -> the sums by `values()`, where it has any."""
    answers = {}
    for metric in (metric.name for metric in metrics):
        question = Question((trial,), (metric,), ("thread", "timer"), values=SUMS)
        table = values(db, question)
        columns = [table.column(name, metric if "clusive" in name else "") for name in SUMS]
        labels = [table.row_labels(name) for name in question.by]
        for thread, timer, *numbers in zip(*labels, *columns, strict=True):
            if numbers[2:] != [None, None]:
                answers[tuple(thread[:3]), timer.timer, timer.groups, metric] = numbers
    return answers
