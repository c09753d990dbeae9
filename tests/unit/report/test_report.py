"""`taupy report`: its screen, its JSON, and when rules abstain."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from taupy.commands import main
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report import document, screen
from taupy.report.report import report
from tests.builders import call, host, profile_of
from tests.findings import gpu_faults, gpu_healthy
from tests.hostile import EVIL, UNSAFE

WIDTH, HEIGHT = screen.WIDTH, screen.HEIGHT


def _stored(tmp_path, profile):
    path = str(tmp_path / "t.db")
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile)
    return path


def _report(tmp_path, profile):
    with ProfileDB.open(_stored(tmp_path, profile)) as db:
        return report(db, db.latest())


def _printed(capsys, *arguments):
    assert main(["report", *arguments]) == 0
    return capsys.readouterr().out


def test_the_screen_says_what_ran_where_time_went_and_what_to_do(tmp_path, capsys):
    path = _stored(tmp_path, gpu_faults.loader_with_few_workers())
    assert _printed(capsys, "--db", path) == (
        "TRIAL 1  app/default/1: taupy run\n"
        "  2023-11-14 22:13:20 UTC, 2.30 s, exit 0, 1 thread, NVIDIA H100 80GB HBM3\n"
        "  measured: complete; without counters (--metrics), C functions (--c-calls)\n"
        "\n"
        "  data 52 %, forward 8 %, backward 5 %, (no phase) 35 %\n"
        "\n"
        "your code, main thread:\n"
        "    1.20 s   52 %  <module> (train.py:1), 1 call\n"
        "                   1.20 s in _BaseDataLoaderIter.__next__, 200 calls\n"
        "    800 ms   35 %  end (train.py:1), 200 calls\n"
        "                   800 ms in cudaStreamSynchronize, 200 calls\n"
        "    300 ms   13 %  step (train.py:1), 200 calls\n"
        "                   190 ms in Net [Net], 200 calls; called by <module>\n"
        "\n"
        "1. data wait, at most 1.20 s (52.2 %): the training waits 1.20 s for its data,\n"
        "   52.2 % of the run, in _BaseDataLoaderIter.__next__\n"
        "   (torch/utils/data/dataloader.py:700)\n"
        "2. synchronisation, at most 800 ms (34.8 %): the host waits for the GPU 200\n"
        "   times for 800 ms, from 1 place, most of it in end (train.py:1); afterwards\n"
        "   the GPU is idle, for 1.20 s in all\n"
        "   try: read results (.item(), .cpu(), prints) once in many steps, or a step\n"
        "   later; use events for stopwatches\n"
        "2 rules gave no verdict: --json says why\n"
        f"next: taupy report 1 --db {path} -o report.html, taupy places 1 --db {path} --all\n"
    )


def test_what_was_not_measured_is_wrapped_and_not_cut(tmp_path):
    measured = _report(tmp_path, gpu_faults.loader_without_workers())
    measured = replace(measured, unmeasured=("GPU", "a word " * 20))
    shown = screen.text(measured)
    assert " ".join(shown.split()).count("a word") == 20
    assert max(map(len, shown.splitlines())) <= WIDTH


@pytest.mark.parametrize("training", [*gpu_faults.FAULTS, *gpu_healthy.HEALTHY])
def test_a_report_fits_on_a_screen(training, tmp_path):
    lines = screen.text(_report(tmp_path, training()), WIDTH, HEIGHT).splitlines()
    assert len(lines) <= HEIGHT
    assert max(map(len, lines)) <= WIDTH


def test_advice_is_left_out_where_the_screen_is_full(tmp_path):
    found = _report(tmp_path, gpu_faults.loader_without_workers())
    full = screen.text(found, WIDTH, 100)
    short = screen.text(found, WIDTH, 12)
    assert "try:" in full
    assert "try:" not in short
    assert [line[:2] for line in short.splitlines() if line[:1].isdigit()][:2] == ["1.", "2."]


@pytest.mark.parametrize("training", [*gpu_faults.FAULTS, *gpu_healthy.HEALTHY])
def test_no_report_is_without_places(training, tmp_path):
    """With findings or without; and the places of a screen are those of `--json`."""
    measured = _report(tmp_path, training())
    lines = screen.text(measured, WIDTH, HEIGHT).splitlines()
    (begin,) = (at for at, line in enumerate(lines) if line.startswith("your code, main thread"))
    first = next(row for row in document.document(measured)["places"] if row["kind"] == "own")
    assert f"{first['routine']} ({first['file']}:{first['line']})" in lines[begin + 1]
    assert lines[-1].startswith("next: taupy report 1")


def test_details_leave_the_screen_before_places_and_findings_do(tmp_path):
    measured = _report(tmp_path, gpu_faults.compiled_again())
    full, narrow = screen.text(measured, WIDTH, 100), screen.text(measured, WIDTH, 10)
    assert "8.00 s in CatchErrorsWrapper.__call__, 200 calls" in full
    assert "##" in full
    assert "8.00 s in" not in narrow and "##" not in narrow
    for kept in ("step (train.py:1), 200 calls", "1. recompilation", "next: taupy"):
        assert kept in narrow


def test_json_holds_findings_with_bounds_evidence_and_abstentions(tmp_path, capsys):
    path = _stored(tmp_path, gpu_faults.saved_each_step())
    document = json.loads(_printed(capsys, "--db", path, "--json"))
    assert document["trial"]["duration_ns"] == 7_400_000_000
    (finding,) = document["findings"]
    assert finding["kind"] == "checkpoints and logging"
    assert finding["saved_ns"] == 1_400_000_000
    assert finding["saved_share"] == pytest.approx(1.4 / 7.4)
    assert finding["speedup"] == pytest.approx(7.4 / 6.0)
    assert finding["confidence"] == "medium"
    (evidence,) = finding["evidence"]
    assert evidence["rows"][0]["inclusive time"] == 1_400_000_000
    assert evidence["rows"][0]["calls"] == 200
    assert {one["kind"] for one in document["abstentions"]} == {
        "memory growth",
        "loop over elements",
        "imports and start-up",
    }
    assert {one["phase"] for one in document["phases"]} >= {"forward", "checkpoint", "import"}


def test_no_name_of_a_program_reaches_the_terminal_as_it_is(tmp_path, capsys):
    saving = Timer(EVIL, "a.py", 1, groups=("PHASE_CHECKPOINT",))
    caller = Timer(f"f{EVIL}", f"{EVIL}.py", 1)
    root = call(".taupy application", 1, 0, [call(caller, 1, 0, [call(saving, 9, 2 * 10**9)])])
    path = _stored(tmp_path, profile_of(host(root), application=EVIL))
    for form in ([], ["--json"]):
        printed = _printed(capsys, "--db", path, *form)
        assert "checkpoints and logging" in printed
        assert not UNSAFE.search(printed)


@pytest.mark.parametrize("remark", ["lost", "callpaths", "children_unmeasured", "throttled"])
def test_no_rule_judges_a_part_of_the_evidence(remark, tmp_path):
    profile = gpu_faults.saved_each_step()
    profile.metadata[f"taupy.health.{remark}"] = "a part is missing"
    judgement = _report(tmp_path, profile).judgement
    assert judgement.findings == []
    assert all("a part is missing" in one.reason for one in judgement.abstentions)


def test_rules_of_the_gpu_abstain_where_its_records_are_not_whole(tmp_path):
    profile = gpu_faults.tiny_kernels()
    profile.metadata["taupy.health.gpu_dropped"] = "CUPTI dropped 12 records"
    judgement = _report(tmp_path, profile).judgement
    assert judgement.findings == []
    reasons = {one.kind: one.reason for one in judgement.abstentions}
    assert "CUPTI dropped 12 records" in reasons["tiny kernels"]
    assert "CUPTI dropped 12 records" not in reasons.get("data wait", "")


def test_what_saves_too_little_is_no_finding(tmp_path):
    """7 ms in each of 200 steps are a finding of 7.4 s; of a run a hundred times as long not."""
    profile = replace(gpu_faults.saved_each_step(), duration_ns=740_000_000_000)
    assert _report(tmp_path, profile).judgement.findings == []


def test_a_trial_without_any_call_tree_has_no_findings(tmp_path, capsys):
    profile = profile_of()
    profile.threads = []
    found = _report(tmp_path, profile)
    assert found.judgement.findings == []
    assert "no findings" in screen.text(found)
