"""Counters of a GPU over time, from `taupy run --pm-sampling` to the trial, with a GPU that is
played (`tests/fake_gpu`).
"""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise

import pytest

from tests.fake_gpu import PRELUDE, c_compiler

PROGRAM = PRELUDE + "init()\nlaunch('k')\ntime.sleep(0.3)\n"


@pytest.fixture
def gpu(runs, played_gpu):
    cupti = str(played_gpu / "libcupti.so.13")
    runs.environment.update(LD_LIBRARY_PATH=str(played_gpu), TAUPY_CUPTI=cupti)
    return runs


# The watch's series are there, too, where a program takes long enough.
OF_GPUS = "timeline WHERE event LIKE 'GPU%'"
POINTS = """
    SELECT start_s, end_s, mean, minimum, maximum, count, unit FROM timeline
     WHERE trial_id = (SELECT max(id) FROM trial) AND event = ? ORDER BY start_s
"""

EVENT = """
    SELECT count, minimum, maximum, mean, unit FROM user_events
     WHERE trial_id = (SELECT max(id) FROM trial) AND event = ?
"""


@pytest.mark.slow
def test_a_timeline_and_its_statistics_stand_in_the_trial(gpu):
    done = gpu.run(PROGRAM, "--pm-sampling", "sm_active,bytes_l2", "--pm-interval", "2ms")
    assert done.returncode == 0
    assert "GH100: 2 values are sampled every 2.00 ms" in done.stderr
    points = gpu.sql(POINTS, "GPU[0] sm_active")
    assert len(points) > 100
    first = points[0]
    assert first[1] - first[0] == pytest.approx(2e-3, abs=1e-6)
    assert all(one[1] <= other[0] + 1e-9 for one, other in pairwise(points))
    # Metric 1 of CUPTI: 10 and 11 in turn; the program sleeps for 0.3 s after its launch.
    assert {point[2] for point in points} == {10.0, 11.0}
    assert points[-1][1] - first[0] > 0.25
    count, low, high, mean, unit = gpu.one(EVENT, "GPU[0] sm_active")
    assert (count, low, high, unit) == (len(points), 10.0, 11.0, "%")
    assert mean == pytest.approx(10.5, abs=0.01)
    # Metric 2 is a sum, 2000 in 2 ms.
    (rate,) = {(*one[2:5], one[6]) for one in gpu.sql(POINTS, "GPU[0] bytes_l2")}
    assert rate == (1e6, 1e6, 1e6, "B/s")
    assert gpu.metadata("taupy.sampling.gpu0") == "GH100, every 2000000 ns"
    assert gpu.metadata("taupy.health.sampling") is None
    assert gpu.calls()["<module>"] == 1 and gpu.one("SELECT count(*) FROM launch") == 1
    assert list(gpu.state.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1206", "1208", "1300", "1301", "1302", "1305"])
def test_each_version_gets_only_structures_that_it_knows(gpu, version):
    """CUPTI refuses a size that it does not know; 12.6 knows a shorter configuration."""
    gpu.environment["FAKE_CUPTI"] = version
    done = gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert len(gpu.sql(POINTS, "GPU[0] sm_active")) > 100, done.stderr
    assert gpu.metadata("taupy.health.sampling") is None


@pytest.mark.slow
def test_what_is_sampled_is_configured_for_what_the_gpu_can_count(gpu):
    gpu.environment["FAKE_PM"] = "availability"
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert len(gpu.sql(POINTS, "GPU[0] sm_active")) > 100


@pytest.mark.slow
def test_the_default_set_and_what_the_chip_has_not(gpu):
    done = gpu.run(PROGRAM, "--pm-sampling", "timeline")
    assert "nvlink" not in done.stderr  # of a set; what is named is missed
    assert "10 values are sampled every 1.00 ms" in done.stderr
    assert gpu.sql("SELECT value FROM metadata WHERE name LIKE 'taupy.health.%'") == []
    found = {name for (name,) in gpu.sql(
        f"SELECT DISTINCT event FROM {OF_GPUS}")}  # fmt: skip
    assert found == {
        f"GPU[0] {name}"
        for name in ("sm_active", "sm_occupancy", "tensor_active", "gpu_active", "sm_clock",
                     "dram_read_bytes", "dram_write_bytes", "bytes_l2", "pcie_rx_bytes",
                     "pcie_tx_bytes")
    }  # fmt: skip


@pytest.mark.slow
def test_more_than_a_pass_is_refused_before_the_run_and_what_fits_is_named(gpu):
    gpu.environment["FAKE_PM"] = "most=2"
    done = gpu.run(PROGRAM + "print('ran')", "--pm-sampling", "sm_active,sm_clock,gpu_active")
    assert done.returncode != 0 and done.stdout == ""
    assert "together fit sm_active, sm_clock; leave out gpu_active" in done.stderr
    assert not gpu.database.exists()


@pytest.mark.slow
def test_what_this_gpu_cannot_count_does_not_keep_the_rest_away(gpu):
    """A GPU without NVLink gives no samples at all if its bytes are asked for."""
    done = gpu.run(PROGRAM, "--pm-sampling", "sm_active,nvlink_rx_bytes")
    assert "GH100: not sampled: nvlink_rx_bytes (this GPU does not have it" in done.stderr
    assert len(gpu.sql(POINTS, "GPU[0] sm_active")) > 100
    gpu.environment["FAKE_PM"] = "nvlink"
    gpu.run(PROGRAM, "--pm-sampling", "sm_active,nvlink_rx_bytes")
    assert len(gpu.sql(POINTS, "GPU[0] nvlink_rx_bytes")) > 100


def test_what_can_be_sampled_is_listed_for_the_gpus_that_are_there(gpu):
    """CUPTI answers for GPUs that are not there, too."""
    listed = gpu.taupy("avail", "--sampling", stdin=subprocess.DEVNULL)
    assert listed.returncode == 0 and "SAMPLED ON GH100" in listed.stdout, listed.stderr
    assert "Unknown" not in listed.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("sm_activ", "there is nothing 'sm_activ' to sample; near it: sm_active"),
        ("gld", "gld (it is counted kernel by kernel only (--metrics))"),
        ("nvlink_rx_bytes", "GH100: not sampled: nvlink_rx_bytes (this GPU does not have it"),
        ("nvlink_rx_bytes", "no GPU here can sample any of this"),
    ],
)
def test_names_that_cannot_be_sampled_are_reported(gpu, names, said):
    done = gpu.run("print('ran')", "--pm-sampling", names)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("enable=35", "GPU 0 is not sampled: the driver lets only administrators profile"),
        pytest.param("enable=7", "another tool samples it already", marks=pytest.mark.slow),
        ("config=27", "GH100 cannot sample these together, or not at this interval"),
        pytest.param("enable=43", "a MIG instance", marks=pytest.mark.slow),
        pytest.param("start=40", "this vGPU", marks=pytest.mark.slow),
    ],
)
def test_what_keeps_samples_away_is_reported_before_the_run_and_the_program_runs(gpu, fault, said):
    gpu.environment["FAKE_PM"] = fault
    done = gpu.run("print('ran')", "--pm-sampling", "sm_active")
    assert done.returncode == 0 and done.stdout == "ran\n"
    assert said in done.stderr and "sampled every" not in done.stderr
    assert gpu.sql(f"SELECT * FROM {OF_GPUS}") == []
    notes = gpu.sql("SELECT value FROM metadata WHERE name LIKE 'taupy.health.%'")
    assert any(said in value for (value,) in notes)
    assert gpu.metadata("taupy.health.sampling") is None  # it is said once


@pytest.mark.slow
def test_a_chip_before_turing_is_left_alone(gpu):
    gpu.environment["FAKE_CHIPS"] = "GV100"
    done = gpu.run("print('ran')", "--pm-sampling", "sm_active")
    assert done.stdout == "ran\n"
    assert "GV100 is not sampled: Turing and later can be" in done.stderr


@pytest.mark.slow
def test_an_older_cupti_is_reported(gpu, tmp_path):
    """One of before CUDA 12.6: with the database, without sampling."""
    source = tmp_path / "old.c"
    source.write_text(
        "int cuptiGetVersion(unsigned *v) { return *v = 22, 0; }\n"
        "int cuptiProfilerHostGetSupportedChips(void *p) { return 0; }\n"
    )
    library = tmp_path / "libcupti.so.12"
    subprocess.run([*c_compiler().split(), "-shared", "-fPIC", source, "-o", library], check=True)
    gpu.environment["TAUPY_CUPTI"] = str(library)
    done = gpu.run("print('ran')", "--pm-sampling", "sm_active")
    assert done.stdout == "ran\n" and "that of CUDA 12.6 and later can" in done.stderr


@pytest.mark.slow
def test_turing_and_a100_are_sampled_by_cycles_and_so_is_who_refuses_a_time(gpu):
    gpu.environment["FAKE_CHIPS"] = "GA100"
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert gpu.metadata("taupy.sampling.gpu0") == "GA100, every 1000000 cycles"
    assert len(gpu.sql(POINTS, "GPU[0] sm_active")) > 100
    gpu.environment.update(FAKE_CHIPS="GB100", FAKE_PM="time=27")
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert gpu.metadata("taupy.sampling.gpu0") == "GB100, every 1000000 cycles"


@pytest.mark.slow
def test_a_full_buffer_is_reported_with_the_time_that_is_missing(gpu):
    gpu.environment["FAKE_PM"] = "full"
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    said = gpu.metadata("taupy.health.sampling")
    assert "the hardware's sample buffer overflowed 1 times: use a longer --pm-interval" in said
    # Ten samples were lost, and the first one after that is left out.
    assert "11.0 ms of " in said and "have no samples" in said


@pytest.mark.slow
def test_a_gpu_that_samples_faster_than_can_be_read_ends_nevertheless(gpu):
    gpu.environment["FAKE_PM"] = "fast"  # a thousand times as fast as was asked for
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert "too many to be read" in gpu.metadata("taupy.health.sampling")
    assert gpu.one("SELECT max(points) FROM (SELECT count(*) AS points FROM sample)") <= 32768


@pytest.mark.slow
def test_a_context_is_made_where_one_is_needed_and_that_is_reported(gpu):
    gpu.environment["FAKE_PM"] = "context"
    done = gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert "GPU 0: sampling needed a CUDA context" in done.stderr
    assert len(gpu.sql(POINTS, "GPU[0] sm_active")) > 100


@pytest.mark.slow
def test_stamps_of_another_clock_are_moved_and_called_a_guess(gpu):
    gpu.environment["FAKE_PM"] = "clock"
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert "times are estimates" in gpu.metadata("taupy.health.sampling")
    points = gpu.sql(POINTS, "GPU[0] sm_active")
    assert -1 < points[0][0] < 2 and points[-1][1] > 0


@pytest.mark.slow
def test_only_gpus_that_the_program_used_are_kept(gpu):
    gpu.environment.update(FAKE_CHIPS="GH100,GH100", FAKE_DEVICES="2")
    gpu.run(PRELUDE + "init()\nlaunch('k', device=1)\n", "--pm-sampling", "sm_active")
    assert gpu.sql(f"SELECT DISTINCT event FROM {OF_GPUS}") == [
        (f"GPU[{ordinal}] sm_active",)
        for (ordinal,) in gpu.sql("SELECT ordinal FROM device ORDER BY ordinal")
    ]


@pytest.mark.slow
def test_a_program_without_cuda_keeps_no_timeline(gpu):
    done = gpu.run("print(1)", "--pm-sampling", "sm_active")
    assert "used none of the GPUs that were sampled" in done.stderr
    assert gpu.sql(f"SELECT * FROM {OF_GPUS}") == []


@pytest.mark.slow
def test_a_killed_program_keeps_its_timeline(gpu):
    gpu.run(PROGRAM + "os.kill(os.getpid(), 9)\n", "--pm-sampling", "sm_active")
    gpu.taupy("trials", "--db", str(gpu.database))
    assert len(gpu.sql(POINTS, "GPU[0] sm_active")) > 100


@pytest.mark.slow
def test_the_sampler_is_no_child_and_goes_with_the_program(gpu):
    source = PROGRAM + (
        "try:\n    os.waitpid(-1, os.WNOHANG); print('a child')\n"
        "except ChildProcessError: print('no child')\n"
        "print(sorted(set(map(int, os.listdir('/proc/self/fd'))) - {0, 1, 2}))\n"
    )
    plain = gpu.run(source, "--gpu").stdout
    sampled = gpu.run(source, "--gpu", "--pm-sampling", "sm_active").stdout
    assert sampled == plain and sampled.startswith("no child\n")
    assert list(gpu.state.iterdir()) == []


@pytest.mark.slow
def test_sampling_and_counting_of_kernels_are_two_runs(gpu):
    done = gpu.run("print(1)", "--pm-sampling", "sm_active", "--pm-interval", "1")
    assert done.returncode == 0  # a number alone is milliseconds
    for options, said in (
        (("--pm-interval", "1ms"), "--pm-interval needs --pm-sampling NAMES"),
        (("--pm-sampling", "sm_active", "--pm-interval", "1us"), "from 50us to 60s"),
        (("--pm-sampling", "sm_active", "--pm-interval", "fast"), "such as 1ms or 100us"),
    ):
        done = gpu.run("print(1)", *options)
        assert done.returncode == 2 and said in done.stderr and done.stdout == ""


@pytest.mark.slow
def test_of_two_runs_the_timed_one_is_sampled(gpu):
    done = gpu.run(PROGRAM, "--twice", "--metrics", "page_faults", "--pm-sampling", "sm_active")
    assert done.returncode == 0 and done.stderr.count("sampled every") == 1
    assert gpu.one("SELECT count(*) FROM trial") == 1
    assert len(gpu.sql(POINTS, "GPU[0] sm_active")) > 100


@pytest.mark.slow
def test_one_rank_of_a_machine_samples_for_all(gpu):
    gpu.environment.update(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", MASTER_PORT="1")
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    gpu.environment.update(RANK="0", LOCAL_RANK="0")
    gpu.run(PROGRAM, "--pm-sampling", "sm_active")
    assert gpu.one("SELECT count(*) FROM trial") == 1
    assert gpu.sql(f"SELECT DISTINCT node FROM {OF_GPUS}") == [(0,)]


@pytest.mark.slow
def test_exports_show_it_as_counters(gpu):
    gpu.run(PROGRAM, "--trace", "--pm-sampling", "sm_active,bytes_l2")
    target = gpu.folder / "out.json"
    done = gpu.taupy("export", "latest", "--db", str(gpu.database), "--format", "chrome",
                     "-o", str(target))  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = json.loads(target.read_text())["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    names = {counter["name"] for counter in counters}
    assert names == {"sm_active [%]", "bytes_l2 [B/s]", "Resident Memory [KiB]"}
    counters = [event for event in counters if event["name"] != "Resident Memory [KiB]"]
    (kernel,) = (event for event in events if event.get("name") == "k" and event["ph"] == "X")
    assert {counter["pid"] for counter in counters} == {kernel["pid"]}
    stamps = [counter["ts"] for counter in counters if counter["name"] == "sm_active [%]"]
    assert stamps == sorted(stamps) and stamps[0] < kernel["ts"] < stamps[-1]
    done = gpu.taupy("export", "latest", "--db", str(gpu.database), "--format", "tau",
                     "-o", str(gpu.folder / "tau"))  # fmt: skip
    assert "not written: values over time; formats that hold them: chrome, perfetto" in done.stderr
