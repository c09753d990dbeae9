"""`taupy pprof --kernels` and `taupy kernel` as users type them."""

from __future__ import annotations

import json

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import in_process
from tests.builders import gpu_profile, small_profile


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
    done = taupy(database, "kernel", "--trial", "1", "--by", "group", "--json")
    (view,) = json.loads(done.stdout)
    rows = {row["kernel"]: (row["launches"], row["time_ns"]) for row in view["rows"]}
    assert rows == {"GPU_KERNEL": (20, 5800), "GPU_COPY": (10, 2000)}
    done = taupy(database, "kernel", "gemm", "--trial", "1", "--by", "configuration", "--json")
    (view,) = json.loads(done.stdout)
    assert [(row["short_name"], row["time_ns"], round(row["percent"], 1)) for row in view["rows"]] \
        == [
            ("128x1x1 blocks of 256x1x1 threads, 64 registers, 49152 B shared", 4400, 56.4),
            ("64x1x1 blocks of 256x1x1 threads, 64 registers, 49152 B shared", 600, 7.7),
        ]  # fmt: skip
    done = taupy(database, "pprof", "1", "--kernels", "--by", "module")
    assert done.stdout.startswith("GPU WORK BY MODULE OF NODE 0, CONTEXT 1")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("kernel", "softmax", "--trial", "1"), 2, "the largest are gemm, Memcpy HtoD, relu"),
        (("kernel", "gemm", "--trial", "2"), 1, "nothing of trial 2 ran on a GPU"),
        (("pprof", "1", "--kernels", "--tree"), 2, "choose one"),
        (("pprof", "1", "--kernels", "--filter", "nope"), 1, "no kernel of trial 1 matches"),
        (("pprof", "1", "--kernels", "--thread", "0.0.0"), 1, "no kernel of trial 1 matches"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(database, arguments, code, says):
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
