"""People see the short names of kernels, one table for each kind of thread, and units once;
programs get full names and all threads."""

from __future__ import annotations

import csv
import io
import shlex

import pytest

from taupy.model.profile import Metric, Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import in_process
from tests.builders import call, gpu_profile, host, profile_of

ADD = (
    "void at::native::elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"
    "(int, at::native::CUDAFunctor_add<float>)"
)
EXP = ADD.replace("CUDAFunctor_add", "exp_functor")
SHORT = "at::native::elementwise_kernel"
APART = [f"{SHORT}<4, at::native::{which}<float> >" for which in ("CUDAFunctor_add", "exp_functor")]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "t.db"
    with ProfileDB.open(path, create=True) as db:
        for number in (1, 2):
            profile = gpu_profile(number, metadata={"batch": str(number)})
            full = {"gemm": ADD, "relu": EXP}
            profile.timers = [
                Timer(full[timer.short], groups=timer.groups, short=SHORT)
                if timer.short in full
                else timer
                for timer in profile.timers
            ]
            add_profile(db, profile)
    return path


@pytest.mark.parametrize(
    "command",
    [
        "pprof", "pprof --tree", "pprof --kernels", "pprof --list",
        "pprof --callees cudaLaunchKernel",
        "kernels", "candidates", "compare 1 2", "compare 1 2 --by callpath", "pivot --rows kernel",
        "pivot --rows application --columns kernel", "sweep --by batch --show routines",
        "compare 1 2 --fail-on 'time of /kernel</ > +5%'",
    ],
)  # fmt: skip
def test_kernels_have_short_names_for_people_and_full_ones_for_programs(database, command):
    words = shlex.split(command)
    shown = in_process.taupy(*words, "--db", database)
    assert "void at" not in shown.stdout, shown.stdout
    assert all(name in shown.stdout for name in APART), shown.stdout + shown.stderr
    for form in ("--wide", "--csv"):
        whole = in_process.taupy(*words, form, "--db", database).stdout
        assert ADD in whole and EXP in whole


def test_a_note_names_the_kernel_of_a_table_in_full(database):
    shown = in_process.taupy("kernel", "/add/", "--db", database).stdout
    assert f"KERNEL {SHORT}" in shown and f"note: {ADD}" in shown


MISSES = Metric("misses", "")


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A main thread, and four workers that each spent 10 ns with 1 miss in `work`."""

    def at(time):
        return {"time": time, "misses": time / 10}

    work, wait = Timer("work", "pool.py", 1), Timer("wait", "pool.py", 9)
    root = Timer(".taupy application", groups=("TAUPY",))
    path = tmp_path_factory.mktemp("pool") / "t.db"
    threads = [host(call(root, 1, at(0), [call(wait, 1, at(100)), call(work, 1, at(50))]))]
    threads += [host(call(root, 1, at(0), [call(work, 2, at(10))]), node) for node in range(1, 5)]
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile_of(*threads, metrics=[Metric("time", "ns"), MISSES]))
    return path


@pytest.mark.parametrize("view", [[], ["--tree"]])
def test_people_see_the_main_thread_and_the_sums_of_its_workers(pool, view):
    for form in ([], ["--wide"], ["--markdown"]):
        shown = in_process.taupy("pprof", *view, "--plain", *form, "--db", pool).stdout
        assert shown.count("NODE 0;CONTEXT 0;THREAD 0") == 1 and "NODE 3" not in shown
        assert shown.count("4 WORKER PROCESSES, ADDED UP") == 1 and "SUMMARY" not in shown
        below = shown.partition("ADDED UP")[2]
        assert "0.000040" in below and "0.000050" not in below
    for whole in (["--csv"], ["--thread", "all"]):
        every = in_process.taupy("pprof", *view, *whole, "--db", pool).stdout
        assert "ADDED UP" not in every
    assert len({row["node"] for row in csv.DictReader(io.StringIO(
        in_process.taupy("pprof", *view, "--csv", "--db", pool).stdout))} - {""}) == 5  # fmt: skip


@pytest.mark.parametrize("view", [[], ["--tree"]])
def test_another_metric_of_workers_is_added_up_over_them_alone(pool, view):
    words = ("pprof", *view, "--also", "misses", "--plain", "--wide", "--db", pool)
    lines = in_process.taupy(*words).stdout.partition("ADDED UP")[2].splitlines()
    (work,) = [line.split() for line in lines if "work [" in line]
    assert work[1] == "0.000040" and "4" in work[4:7]


def test_a_limit_counts_in_each_table(pool):
    shown = in_process.taupy("pprof", "--tree", "--limit", "2", "--db", pool).stdout
    assert shown.count("all but the 2 largest call paths") == 2 and shown.count("└") == 2


def test_no_heading_repeats_the_unit_of_its_cells(database):
    shown = in_process.taupy("sweep", "--by", "batch", "--db", database).stdout
    assert shown.startswith("SWEEP over batch: time\n") and "500 ns" in shown


def test_the_page_tells_kernels_of_one_short_name_apart(database):
    from taupy.model.question import VALUES, Question
    from taupy.profiledb.values import values
    from taupy.report import forest

    with ProfileDB.open(database) as db:
        made = forest.Forest()
        made.add(
            values(db, Question((1,), by=("thread", "callpath", "parent", "timer"), values=VALUES)),
            {},
        )
    assert {*APART} < {name["name"] for name in made.layout({})["names"]}
