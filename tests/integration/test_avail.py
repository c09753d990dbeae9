"""`taupy avail`: counters of any chip with no GPU, with NVIDIA's library and without."""

import json

import pytest

from taupy.catalog import recorded
from taupy.catalog.counters import COUNTERS
from taupy.collectors import cupti_host, perf_events
from taupy.collectors.cupti_host import CuptiHost, CuptiUnavailable
from taupy.commands import main


def there_is_cupti():
    try:
        return f"CUPTI {CuptiHost.open().version_text}" == recorded.SOURCE
    except CuptiUnavailable:
        return False


@pytest.fixture(params=["recorded", "library"])
def source(request, monkeypatch, tmp_path):
    """Both sources, one after the other; the library where it is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path))
    if request.param == "recorded":
        monkeypatch.setattr(cupti_host, "libraries", lambda: iter(()))
    elif not there_is_cupti():
        pytest.skip(f"needs {recorded.SOURCE}: pip install nvidia-cuda-cupti==13.0.85")
    return request.param


@pytest.fixture
def avail(capsys):
    def ask(*arguments, code=0):
        assert main(["avail", *arguments]) == code
        return capsys.readouterr().out

    return ask


def rows(text):
    answer = json.loads(text)
    return [row for view in answer for row in view["rows"]]


@pytest.mark.parametrize("chip", ["GH100", "TU102", "GB202", "GV100"])
def test_the_counters_of_a_chip_with_their_spelling_and_passes(source, avail, chip):
    found = {row["name"]: row for row in rows(avail("--chip", chip, "--json"))}
    assert found.keys() == {counter.name for counter in COUNTERS}
    assert found["bytes_dram"]["metrics"] == "dram__bytes.sum"
    assert found["bytes_dram"]["passes"] == 1
    assert found["gld"]["unit"] == "inst"
    assert "LDGSTS" in found["gld"]["caution"]
    assert found["tma_ld"]["status"].startswith("not available") == (chip in ("TU102", "GV100"))


def test_it_says_where_it_has_its_answers_from(source, avail):
    text = avail("--chip", "H100")
    told = "as recorded from CUPTI 13.0" if source == "recorded" else "as CUPTI 13.0 answers ("
    assert told in text
    assert "note: gld: counts LDG only: not LDGSTS" in text
    assert "too old for counting in process" in avail("--chip", "V100")


def test_a_list_is_checked(source, avail):
    names = "tau,ipc,gld_request,dram__bytes.sum,CUDA.Tesla_P100-PCIE-16GB.domain_d.inst_executed"
    found = {row["name"]: row for row in rows(avail("--chip", "A100", "-c", names, "--json"))}
    assert found["gld_request"]["means"] == "gld"
    assert found["dram__bytes.sum"]["unit"] == "B"
    assert found["tau"]["passes"] == 2
    assert not any(row["status"] for row in found.values())
    together = avail("--chip", "A100", "-c", "gld", "-c", "flop_fp32")
    assert ("all together: 2 passes" if source == "library" else "at least 1 passes") in together


def test_what_is_not_there_is_named_with_what_comes_close(source, avail):
    text = avail("--chip", "GA10B", "-c", "inst_exec:bytes_dram:gld", "--json", code=1)
    found = {row["name"]: row["status"] for row in rows(text)}
    assert found["inst_exec"].startswith("there is no counter or set 'inst_exec'; near it: inst_ex")
    assert found["bytes_dram"] == "GA10B has no bytes_dram"
    assert not found["gld"]


def test_one_counter_is_shown_with_all_that_is_known_of_it(source, avail):
    facts = {row["name"]: row["value"] for row in rows(avail("gld_request", "--chip", "9.0",
                                                             "--json"))}  # fmt: skip
    assert facts["Name"] == "gld"
    assert facts["GH100"] == "smsp__inst_executed_op_global_ld.sum"
    assert "TMA" in facts["Caution"]
    assert facts["In the sets"] == "tau, memory"
    assert "gld_per_inst" in facts["For the ratios"]
    facts = {row["name"]: row["value"] for row in rows(avail("occupancy", "--chip", "9.0",
                                                             "--json"))}  # fmt: skip
    assert facts["Derived as"] == "warps_active / warp_slots"


def test_sets_are_listed_with_their_passes_and_the_projects_own(source, avail, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.taupy.sets]\nmine = ["gld", "occupancy"]\n')
    found = {row["name"]: row for row in rows(avail("--sets", "--chip", "GH100", "--json"))}
    assert (found["tau"]["passes"], found["roofline"]["passes"]) == (2, 2)
    assert found["mine"]["counters"].startswith("gld, warps_active")
    assert found["mine"]["passes"] == (1 if source == "library" else None)


def test_words_are_searched_for(source, avail):
    names = [row["name"] for row in rows(avail("atomic", "--chip", "GH100", "--json"))]
    assert names == ["gatom"]


def test_nvidias_own_metrics_need_the_library(source, avail, capsys):
    if source == "library":
        found = rows(avail("--raw", "lts__t_bytes", "--chip", "GH100", "--json"))
        assert found[0]["metric"] == "lts__t_bytes"
        return
    assert main(["avail", "--raw", "--chip", "GH100"]) == 2
    assert "pip install nvidia-cuda-cupti==13.0.85" in capsys.readouterr().err


def test_without_a_gpu_the_cpus_counters_are_there(source, avail, monkeypatch):
    counter = perf_events.Counter("instructions", "count", "instructions retired", "ok")
    other = perf_events.Counter("flop", "flop", "operations", "no such event")
    monkeypatch.setattr(perf_events, "available", lambda: [counter, other])
    text = avail()
    assert "COUNTERS OF THE CPU:" in text and "no such event" in text
    assert "no NVIDIA GPU" in text
    avail("-c", "instructions")
    assert "no such event" in avail("-c", "flop", code=1)
    assert "--chip CHIP checks" in avail("-c", "gld", code=1)


def test_the_chips_are_listed(avail):
    found = rows(avail("--chips", "--json"))
    assert len(found) == 30
    assert {row["counted_by"] for row in found if row["chip"] in ("GV100", "GH100")} == {
        "Nsight Compute's files",
        "taupy run --metrics",
    }


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--chip", "GX1"], "there is no chip 'GX1'"),
        (["--chip", "GV11B"], "CUPTI has no metrics for it"),
        (["nothing_at_all"], "no counter has 'nothing_at_all'"),
        (["--raw", "--sets"], "cannot be combined"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(monkeypatch, tmp_path, capsys, arguments,
                                                         part):  # fmt: skip
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path))
    if arguments == ["nothing_at_all"]:
        arguments = [*arguments, "--chip", "GH100"]
    assert main(["avail", *arguments]) == 2
    answer = capsys.readouterr()
    assert part in answer.err and answer.err.count("\n") == 1 and answer.out == ""


def test_what_a_chip_can_sample_is_listed_and_a_list_checked(source, avail, capsys):
    if source == "recorded":
        assert main(["avail", "--sampling", "--chip", "H100"]) == 2
        assert "only CUPTI knows what a chip can sample" in capsys.readouterr().err
        return
    found = {row["name"]: row for row in rows(avail("--sampling", "--chip", "H100", "--json"))}
    assert found["tensor_active"]["set"] == "timeline" and found["bytes_dram"]["unit"] == "B/s"
    assert "gld" not in found
    assert "all together: one pass" in avail("--sampling", "-c", "timeline", "--chip", "T4")
    both = "sm_occupancy,sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed,nonsense"
    text = avail("--sampling", "-c", both, "--chip", "A100", code=1)
    assert "together fit sm_occupancy; leave out sm__inst_executed_realtime" in text
    assert "there is nothing 'nonsense' to sample" in text
    assert main(["avail", "--sampling", "--chip", "V100"]) == 2
    assert "Turing and later can" in capsys.readouterr().err


def test_without_a_chip_the_names_of_the_timeline_are_listed(source, avail):
    assert "sm_active" in avail("--sampling")


def test_sets_and_sampled_names_are_words_too(source, avail):
    assert rows(avail("tau", "--chip", "A100", "--json"))[0]["passes"] == 2
    assert "inst_executed, inst_issued" in avail("tau")
    assert "time in which SMs held a warp" in avail("sm_active")


def test_without_a_gpu_each_name_is_what_a_run_makes_of_it(source, avail, capsys, monkeypatch):
    if CuptiHost.open().has_driver if source == "library" else False:
        pytest.skip("there is a GPU here")
    lacking = [one._replace(status="no PMU") if one.name != "page_faults" else one
               for one in perf_events.available()]  # fmt: skip
    monkeypatch.setattr(perf_events, "available", lambda: lacking)
    asked = "time,roofline,PAPI_FP_OPS,page_faults,r1f03,gld,nonsense"
    found = {row["name"]: row for row in rows(avail("-c", asked, "--json", code=1))}
    assert (
        found["time"]["status"] == "" and found["page_faults"]["means"] == "page_faults of the CPU"
    )
    assert found["roofline"]["means"] == "operations and bytes of BLAS calls"
    assert found["PAPI_FP_OPS"]["status"] == found["r1f03"]["status"] == "no PMU"
    assert "needs an NVIDIA GPU" in found["gld"]["status"]
    assert "no metric or set 'nonsense'" in found["nonsense"]["status"]
    assert main(["avail", "-c", " , "]) == 2
    assert "needs a list of names" in capsys.readouterr().err
