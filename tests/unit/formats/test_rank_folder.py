"""A folder with a file for each rank is one trial with ranks and collectives."""

from __future__ import annotations

import csv
import gzip

import pytest

from taupy.commands import main
from taupy.errors import FormatError
from taupy.formats import rank_folder, registry
from taupy.model.collectives import UNKNOWN_BYTES
from taupy.model.invariants import check
from taupy.model.progress import SILENT
from tests.unit.formats import chrome_files as chrome
from tests.unit.formats.nsys_files import NsysFile, tid

COMMS = {
    "Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Group size": 3,
    "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2]",
}  # fmt: skip


def slices(kernels, **more):
    """Of each step a step's range, in it an operator that asks for a collective, and its kernel.

    Args:
        kernels: start and end of each, ns.
    """
    for n, (start, end) in enumerate(kernels):
        comms = {**COMMS, "Seq": n + 1, "External id": 10 + n, **more}
        yield chrome.slice_("user_annotation", f"ProfilerStep#{n}", n * 10_000, n * 10_000 + 9_000)
        yield chrome.slice_("cpu_op", "c10d::allreduce_", n * 10_000 + 100, n * 10_000 + 400)
        yield chrome.slice_(
            "cpu_op", "record_param_comms", n * 10_000 + 200, n * 10_000 + 300, **comms
        )
        yield chrome.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end, None, 10 + n,
                            stream=20, **{**comms, "External id": 10 + n})  # fmt: skip


def put(folder, name, rank, events, **distributed):
    header = {**chrome.HEADER, "distributedInfo": {"rank": rank, "world_size": 3, **distributed}}
    header["deviceProperties"] = []
    chrome.written(folder / name, events, header=header)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "traces"
    made.mkdir()
    put(made, "rank2.json.gz", 2, slices([(1_000, 5_000), (11_000, 15_000)]))
    put(made, "rank10.json.gz", 0, slices([(4_000, 5_100), (12_000, 15_100)]))  # the name lies
    return made


def read(folder):
    return list(rank_folder.read(folder, SILENT))


def test_each_file_is_a_part_with_its_collectives(folder):
    assert registry.recognised(folder) is rank_folder.FORMAT
    parts = read(folder)
    assert [check(part) for part in parts] == [[], []]
    assert [{one.thread.node for one in part.threads} for part in parts] == [{2}, {0}]
    assert {(part.uuid, part.application) for part in parts} == {("", "traces")}
    facts = parts[0].node_metadata[2]
    assert (facts["Rank"], facts["Ranks"], facts["Attempt"]) == ("2", "3", "1")
    (measured,) = [one for one in parts[0].threads if one.collectives]
    (kept,) = measured.collectives
    assert (kept.communicator, kept.ranks, kept.size, kept.begun) == ("0", "0-2", 3, 2)
    assert kept.operation == ["nccl:all_reduce"] * 2 and [*kept.number] == [1, 2]
    assert [*kept.bytes] == [4000, 4000]
    assert [at - chrome.BASE_NS for at in kept.asked_ns] == [200, 10_200]
    assert [at - chrome.BASE_NS for at in kept.begun_ns] == [1_000, 11_000]
    assert [at - chrome.BASE_NS for at in kept.ended_ns] == [5_000, 15_000]
    tree = measured.tree
    above = tree.parent[kept.row[0]]
    names = [parts[0].timers[tree.timer[row]].name for row in (kept.row[0], above)]
    assert names == ["nccl:all_reduce", "record_param_comms"]
    assert tree.inclusive["time"][kept.row[0]] == 8_000
    (of_step,) = [steps for one in parts[0].threads for steps in one.steps]
    assert ([*of_step.number], [*of_step.time_ns]) == ([1, 2], [9_000, 9_000])


def test_who_was_waited_for_is_known_and_who_is_missing(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(folder)]) == 0
    assert "trial 1 (traces/default/1)" in capsys.readouterr().err
    assert main(["ranks", "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    # Rank 0's kernels begin 3,000 and 1,000 ns after rank 2's.
    sums = [[float(row[name]) for name in ("rank", "wait_ns", "caused_ns")] for row in rows]
    assert sums == [
        [0, 0, 4000], [2, 4000, 0],
    ]  # fmt: skip
    assert main(["ranks"]) == 0
    assert "rank 1 is missing" in capsys.readouterr().out
    assert main(["pprof"]) == 0
    assert "rank 1 is missing" in "".join(capsys.readouterr())


def test_a_rank_that_comes_twice_is_left_out_and_named(folder):
    put(folder, "rank11.json.gz", 0, slices([(1, 2)]))
    (_, last) = read(folder)
    assert "rank11.json.gz is also of rank 0: left out" in last.metadata["taupy.health.import"]


@pytest.mark.parametrize(
    ("more", "known"),
    [
        ({"dtype": "Unheard"}, UNKNOWN_BYTES),
        ({"In msg nelems": None}, UNKNOWN_BYTES),
        ({"dtype": "BFloat16"}, 2000),
    ],
)
def test_bytes_that_are_not_reported_are_unknown(tmp_path, more, known):
    put(tmp_path, "rank0.json", 0, slices([(1_000, 2_000)], **more))
    (part,) = read(tmp_path)
    (kept,) = [kept for one in part.threads for kept in one.collectives]
    assert [*kept.bytes] == [known]
    events = [one for thread in part.threads for one in thread.user_events]
    assert [one.name for one in events] == ["Collective bytes"] * (known > 0)


def test_numbers_are_counted_where_the_file_has_none_and_sends_are_none(tmp_path):
    def events():
        yield from slices([(1_000, 2_000), (12_000, 13_000)], Seq="none")
        yield chrome.slice_("cpu_op", "record_param_comms", 500, 600,
                            **{**COMMS, "Collective name": "send"})  # fmt: skip

    put(tmp_path, "rank0.json", 0, events())
    (part,) = read(tmp_path)
    (kept,) = [kept for one in part.threads for kept in one.collectives]
    assert [*kept.number] == [1, 2]


def test_gloo_has_ranges_on_threads_of_its_own(tmp_path):
    group = {"pg_name": "7", "ranks": [0, 1]}
    events = [chrome.slice_("user_annotation", "gloo:all_reduce", at, at + 50, tid=9)
              for at in (300, 100)]  # fmt: skip
    put(tmp_path, "rank1.json", 1, events, pg_config=[group])
    (part,) = read(tmp_path)
    (kept,) = [kept for one in part.threads for kept in one.collectives]
    assert (kept.communicator, kept.ranks, kept.size) == ("7", "0-1", 2)
    assert [at - chrome.BASE_NS for at in kept.begun_ns] == [100, 300]


def test_collectives_of_gloo_stand_once(tmp_path):
    """On `collectives`; what else the backend's thread did, sends among it, stays there."""
    events = [
        chrome.slice_("cpu_op", "aten::add", 0, 400),
        *(chrome.slice_("user_annotation", "gloo:all_reduce", at, at + 50, 9) for at in (100, 300)),
        chrome.slice_("user_annotation", "gloo:send", 200, 230, 9),
        chrome.slice_("user_annotation", "gloo:broadcast", 500, 590, 9),
    ]
    put(tmp_path, "rank1.json", 1, events)
    (part,) = read(tmp_path)
    found = {}
    for measured in part.threads:
        for timer, calls in zip(measured.tree.timer, measured.tree.calls, strict=True):
            if part.timers[timer].name.startswith("gloo:"):
                found[measured.thread.name, part.timers[timer].name] = calls
    assert found == {
        ("collectives", "gloo:all_reduce"): 2,
        ("collectives", "gloo:broadcast"): 1,
        ("", "gloo:send"): 1,
    }
    assert part.duration_ns == 590


def test_notes_of_many_files_are_few(tmp_path):
    for rank in range(30):
        instants = [{"ph": "i", "ts": 1, "name": "x", "pid": 1, "tid": 1}] * (rank + 1)
        put(tmp_path, f"rank{rank}.json", rank, [*slices([(1_000, 2_000)]), *instants])
    notes = read(tmp_path)[-1].metadata["taupy.health.import"].splitlines()
    assert notes == ["omitted: 1 instant (and similarly in 29 more files)"]


def test_files_that_are_left_out_or_truncated_are_named(folder):
    (folder / "rank0.json.gz").write_bytes(b"")
    (folder / "rank1.json.gz").write_bytes((folder / "rank2.json.gz").read_bytes()[:20])
    (folder / "config.json").write_text("{}")
    whole = gzip.decompress((folder / "rank2.json.gz").read_bytes())
    (folder / "rank2.json.gz").write_bytes(gzip.compress(whole[: len(whole) * 3 // 4]))
    notes = read(folder)[-1].metadata[registry.IMPORT_NOTES]
    names = "config.json, rank0.json.gz, rank1.json.gz"
    assert f"left out, because of another format or damaged: {names}" in notes
    assert "rank2.json.gz is truncated (" in notes


def test_a_damaged_file_is_named(folder):
    (folder / "rank12.json").write_text('{"traceEvents": []}')
    with pytest.raises(FormatError, match=r"rank12\.json"):
        read(folder)


def test_a_folder_with_neither_is_not_recognised(tmp_path):
    (tmp_path / "notes.json").write_text("{}")
    assert not rank_folder.recognises(tmp_path, b"")
    with pytest.raises(FormatError, match="no trace of torch"):
        read(tmp_path)


def nsys(path, kernels, processes=(7,)):
    made = NsysFile(path)
    for process in processes:
        for number, (start, end) in enumerate(kernels, 1):
            made.call("cudaLaunchKernel", start - 50, start - 40, number, tid(process))
            made.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", start, end, number,
                        stream=20, process=process)  # fmt: skip
    made.done()


def test_exports_of_nsys_are_ranks_too(tmp_path):
    nsys(tmp_path / "report.0.sqlite", [(1_000, 3_000), (5_000, 6_000)])
    nsys(tmp_path / "report.1.sqlite", [(2_000, 3_100), (5_000, 6_100)])
    parts = read(tmp_path)
    assert [{one.thread.node for one in part.threads} for part in parts] == [{0}, {1}]
    kept = [kept for part in parts for one in part.threads for kept in one.collectives]
    assert [one.operation for one in kept] == [["nccl:all_reduce"] * 2] * 2
    assert [[*one.number] for one in kept] == [[1, 2]] * 2
    assert [one.communicator for one in kept] == ["stream 20"] * 2
    assert "groups and bytes" in parts[-1].metadata["taupy.health.import"]


def test_an_export_with_several_ranks_has_them_in_order(tmp_path):
    for host in range(2):
        nsys(tmp_path / f"host{host}.sqlite", [(1_000, 3_000)], processes=(7, 8))
    parts = read(tmp_path)
    assert [{one.thread.node for one in part.threads} for part in parts] == [{0, 1}, {2, 3}]
    assert {facts["Ranks"] for part in parts for facts in part.node_metadata.values()} == {"4"}
