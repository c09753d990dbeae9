"""`taupy pprof --kernels`, `taupy kernels` and `taupy kernel` as users type them."""

from __future__ import annotations

import csv
import json
from array import array

import pytest

from taupy.model.gpu import Activity
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import in_process
from tests.builders import gpu_profile, small_profile, steps


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpu") / "g.db"
    with ProfileDB.open(path, create=True, readonly=False) as db:
        add_profile(db, gpu_profile(1))
        add_profile(db, small_profile(2))
    return path


def taupy(database, *arguments):
    return in_process.taupy(*arguments, "--db", database)


def test_the_kernel_table_shows_share_launches_and_owner(database):
    done = taupy(database, "pprof", "1", "--kernels")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    gemm = next(line for line in lines if " gemm " in line)
    assert gemm.split()[0] == "64.1"
    assert gemm.endswith("step [{train.py}{5}]")
    assert any("GPU ACTIVITY" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "kernels"),
    [
        ((), ["gemm", "Memcpy HtoD", "relu"]),
        (("--reverse",), ["relu", "Memcpy HtoD", "gemm"]),
        (("--sort", "name"), ["Memcpy HtoD", "relu", "gemm"]),
        (("--limit", "1"), ["gemm", "'-others-"]),
        (("--filter", "relu", "--filter", "gemm"), ["gemm", "relu"]),
    ],
)
def test_kernels_are_sorted_and_chosen(database, options, kernels):
    done = taupy(database, "pprof", "1", "--kernels", "--csv", *options)
    rows = [*csv.DictReader(done.stdout.splitlines())]
    assert [row["short_name"] for row in rows] == kernels
    assert done.stdout.count("short_name") == 1  # and nothing of how busy the GPU was


def test_the_shares_of_a_stream_are_of_all_its_work(database):
    done = taupy(database, "pprof", "1", "--thread", "0.1.0", "--csv")
    shares = [line.split(",")[5] for line in done.stdout.splitlines() if line.startswith("thread")]
    assert list(map(float, shares)) == pytest.approx([100 * 5000 / 5800, 100 * 800 / 5800])


def test_one_kernel_with_its_launch_sites(database):
    done = taupy(database, "kernel", "gemm", "--trial", "1", "--json")
    (view,) = json.loads(done.stdout)
    assert [(row["grid"], row["launches"], row["mean_ns"]) for row in view["rows"]] == [
        ("128x1x1", 8, 550.0),
        ("64x1x1", 2, 300.0),
    ]
    assert view["notes"] == ["void gemm<float, 128>(float*, int)"]


def test_launches_are_summed_by_any_dimension(database):
    """gemm 5000 ns of 10 launches, relu 800 of 10, copies 2000 of 10."""
    done = taupy(database, "kernels", "1", "--by", "group", "--json")
    (view,) = json.loads(done.stdout)
    rows = {row["group"]: (row["launches"], row["time_ns"]) for row in view["rows"]}
    assert rows == {"GPU_KERNEL": (20, 5800), "GPU_COPY": (10, 2000)}
    done = taupy(database, "kernels", "1", "--kernel", "gemm", "--by", "configuration", "--json")
    (view,) = json.loads(done.stdout)
    assert [(row["short_name"], row["time_ns"], round(row["percent"], 1)) for row in view["rows"]] \
        == [
            ("128x1x1 blocks of 256x1x1 threads, 64 registers, 49152 B shared", 4400, 56.4),
            ("64x1x1 blocks of 256x1x1 threads, 64 registers, 49152 B shared", 600, 7.7),
        ]  # fmt: skip
    done = taupy(database, "pprof", "1", "--kernels", "--by", "module")
    assert done.stdout.startswith("GPU WORK BY MODULE OF NODE 0, CONTEXT 1")


def traced(*, calls: int = 0):
    """`gpu_profile` with two steps of 5 us, and the first calls for its kernels, each 500 ns."""
    profile = gpu_profile()
    begin = profile.threads[1].activities[0].start_ns
    series = steps([5000, 5000])
    series.start_ns = array("q", [begin, begin + 5000])
    profile.threads[0].steps = [series]
    profile.threads[0].activities = [
        Activity(3, "api", begin + 500 * n, begin + 500 * n + 40, n + 1) for n in range(calls)
    ]
    return profile


@pytest.fixture
def by_step(tmp_path):
    def by_step(profile, *arguments):
        path = tmp_path / "s.db"
        with ProfileDB.open(path, create=True, readonly=False) as db:
            add_profile(db, profile)
        done = taupy(path, *arguments, "--by", "step", "--json")
        assert done.returncode == 0, done.stderr
        view = json.loads(done.stdout)[0]
        return view, [(row["step"], row["launches"], row["time_ns"]) for row in view["rows"]]

    return by_step


def test_a_launch_counts_in_the_step_of_its_call(by_step):
    """Twenty kernels start 1 us apart; the first twelve are called for 500 ns apart. The copies
    are not in the trace."""
    view, rows = by_step(traced(calls=12), "kernels")
    assert rows == [
        ("1", 10, 2900), ("2", 2, 580), ("(no step)", 8, 2320), ("(not in the trace)", 10, 2000),
    ]  # fmt: skip
    first, *_, lost = view["rows"]
    assert (first["minimum_ns"], first["maximum_ns"], first["mean_ns"]) == (80, 500, 290)
    assert first["stddev_ns"] == pytest.approx(210)
    assert (first["occupancy_percent"], first["configurations"]) == (None, None)
    assert (lost["minimum_ns"], lost["mean_ns"], lost["stddev_ns"]) == (
        *(None, 200), pytest.approx((900.0 / 10) ** 0.5),
    )  # fmt: skip
    assert sum(row["percent"] for row in view["rows"]) == pytest.approx(100)
    assert view["notes"] == [
        "launches count in the step in which the host called for them",
        "launches whose calls were not recorded: 8 of 20, which count in the step in which they "
        "started on the GPU",
        "launches that are not in the trace, of unknown steps: 10",
    ]


def test_launches_of_one_kernel_by_step(by_step):
    assert by_step(traced(), "kernels", "--kernel", "gemm")[1] == [
        ("1", 3, 1500), ("2", 2, 1000), ("(no step)", 5, 2500),
    ]  # fmt: skip


def test_the_table_of_kernels_by_step_is_in_order_of_time(by_step):
    profile = traced()
    profile.threads[0].steps[0].number = array("q", [9, 10])
    rows = by_step(profile, "pprof", "1", "--kernels", "--filter", "relu")[1]
    assert [row[0] for row in rows] == ["9", "10", "(no step)"]


def test_people_see_launches_of_the_first_and_last_steps(by_step, tmp_path):
    profile = traced()
    series = steps([1000] * 20)
    begin = profile.threads[1].activities[0].start_ns
    series.start_ns = array("q", [begin + 1000 * step for step in range(20)])
    profile.threads[0].steps = [series]
    by_step(profile, "kernels", "--kernel", "gemm")
    lines = taupy(
        tmp_path / "s.db", "kernels", "--kernel", "gemm", "--by", "step"
    ).stdout.splitlines()
    shown = [line.partition("step [")[0].split()[-1] for line in lines if "step [{" in line]
    assert shown == ["1", "3", "19"]
    assert "note: 7 steps more: --all shows them" in lines


@pytest.mark.parametrize(
    ("with_steps", "said"),
    [
        (False, "trial 1 has no steps: see docs/steps.md"),
        (True, "trial 1 has sums of its launches, not single ones: `taupy run --trace=gpu`"),
    ],
)
def test_without_steps_or_trace_launches_have_no_step(tmp_path, with_steps, said):
    profile = traced() if with_steps else gpu_profile()
    for thread in profile.threads:
        thread.activities = []
    with ProfileDB.open(tmp_path / "s.db", create=True, readonly=False) as db:
        add_profile(db, profile)
    for command in (("kernels",), ("kernels", "--kernel", "gemm"), ("pprof", "--kernels")):
        done = taupy(tmp_path / "s.db", *command, "--by", "step")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("kernel", "softmax", "--trial", "1"), 2, "the largest are gemm, Memcpy HtoD, relu"),
        (("kernel", "gemm", "--trial", "2"), 2, "nothing of trial 2 ran on a GPU"),
        (("pprof", "1", "--kernels", "--tree"), 2, "choose one"),
        (
            ("pprof", "1", "--kernels", "--filter", "nope", "--filter", "none"),
            2,
            "no kernel of trial 1 matches 'nope' or 'none'; the largest are gemm",
        ),
        (
            ("pprof", "1", "--kernels", "--thread", "0.0.0"),
            2,
            "nothing of trial 1 ran on a GPU for these threads",
        ),
    ],
)
def test_what_is_not_there_is_reported_in_one_line(database, arguments, code, says):
    done = taupy(database, *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_stored_code_stands_beside_what_was_measured(database, tmp_path):
    """The kernel's launches had 64 registers; the code that is stored has 40."""
    import shutil

    from taupy.profiledb import gpu_query, kernel_codes
    from tests.kernel_codes import code

    copy = tmp_path / "copy.db"
    shutil.copy(database, copy)
    with ProfileDB.open(copy, readonly=False) as db:
        chip = gpu_query.devices(db, 1)[0].compute_capability
        gemm = code("_Z4gemmIfLi128EEvPfi", chip=chip, registers=40)
        other = code("_Z4gemmIdLi128EEvPdi", chip=chip)
        elsewhere = code("_Z4gemmIfLi128EEvPfi", chip="12.1", module="1" * 64)
        list(kernel_codes.storing(db, [gemm, other, elsewhere]))
    done = taupy(copy, "kernel", "gemm", "--trial", "1", "--json")
    sites, beside = json.loads(done.stdout)
    assert beside["title"] == (
        f"CODE AND MEASUREMENT of void gemm<float, 128>(float*, int) on {chip}:"
    )
    registers = next(row for row in beside["rows"] if row["what"] == "registers")
    assert (registers["code"], registers["measured"]) == (40, 64)
    assert any("another module or compiler" in note for note in beside["notes"])
    assert (
        sites["rows"]
        == json.loads(taupy(database, "kernel", "gemm", "--trial", "1", "--json").stdout)[0]["rows"]
    )


def test_stored_code_is_shown_without_a_measurement(tmp_path):
    from taupy.profiledb import kernel_codes
    from tests.kernel_codes import code

    with ProfileDB.open(tmp_path / "code.db", create=True) as db:
        list(kernel_codes.storing(db, [code("gemm", registers=40), code("saxpy", module="1" * 64)]))
    done = taupy(tmp_path / "code.db", "kernel", "gem", "--json")
    table, *_ = json.loads(done.stdout)
    assert [(row["name"], row["registers"]) for row in table["rows"]] == [("gemm", 40)]
    assert "the stored code only" in table["notes"][0] and "has no trials" in table["notes"][0]
    for words in (["kernel", "axpby"], ["kernel", "gemm", "--trial", "9"], ["kernels"]):
        done = taupy(tmp_path / "code.db", *words)
        assert done.returncode != 0 and "has no trials" in done.stderr


@pytest.fixture
def with_code(database, tmp_path):
    """A copy with the code of gemm: on 9.0, 64 registers, a strided load."""
    import shutil

    from taupy.profiledb import kernel_codes
    from tests.kernel_codes import access, code

    copy = tmp_path / "copy.db"
    shutil.copy(database, copy)
    strided = access(pattern="strided", stride=8)
    gemm = code("_Z4gemmIfLi128EEvPfi", chip="9.0", registers=64, accesses=(strided,))
    with ProfileDB.open(copy, readonly=False) as db:
        list(kernel_codes.storing(db, [gemm]))
    return copy


def test_candidates_propose_what_the_code_says(with_code, database):
    done = taupy(with_code, "candidates", "1", "--metric", "code", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["rule"]: row for row in json.loads(done.stdout)["rows"]}
    # Half of the traffic is used, and the rest may fit into the L2 cache, three times as fast: of
    # gemm's 5000 ns, a sixth may be left.
    assert rows["access"]["saved_ns"] == pytest.approx(5000 * 5 / 6)
    # 48 KiB of shared memory leave room for 4 blocks of 8 warps, half of 64; with 64 registers
    # no other block size has more.
    assert set(rows) == {"access"}
    usual = taupy(with_code, "candidates", "1", "--metric", "time", "--group", "gpu_kernel")
    assert "code: " in usual.stdout
    assert "code: " not in taupy(
        database, "candidates", "1", "--metric", "time", "--group", "gpu_kernel"
    ).stdout  # fmt: skip
    without = taupy(database, "candidates", "1", "--metric", "code")
    assert without.returncode == 1 and "`taupy static FILE --store` keeps" in without.stderr


def test_block_sizes_are_ranked_without_a_gpu_and_beside_measured_times(with_code):
    done = taupy(with_code, "sweep", "--block", "64,256,1024", "--kernel", "gemm", "--json")
    (view,) = [json.loads(done.stdout)]
    assert [row["block"] for row in view["rows"]] == [64, 256, 1024]
    assert {row["mean_ns"] for row in view["rows"]} == {None}
    assert any("taupy run --sweep block=64,256,1024" in note for note in view["notes"])
    done = taupy(with_code, "sweep", "1", "--block", "64,256", "--kernel", "gemm", "--json")
    times = {row["block"]: row["mean_ns"] for row in json.loads(done.stdout)["rows"]}
    assert times == {64: None, 256: 500.0}  # 5000 ns of 10 launches
    for arguments, says in (
        (["--kernel", "gemm"], "--kernel needs --block"),
        (["--block", "64,zero"], "is not a list of block sizes"),
        (["--block", "64", "--kernel", "nothing"], "no stored code of a kernel matches"),
    ):
        done = taupy(with_code, "sweep", *arguments)
        assert done.returncode != 0 and says in done.stderr and done.stderr.count("\n") == 1
