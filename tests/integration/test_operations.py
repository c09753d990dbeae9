"""`taupy run --metrics analytic`: flop and bytes of BLAS calls, told from their shapes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from taupy.commands import main
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB

pytest.importorskip("numpy")
pytest.importorskip("taupy._native.blas", reason="built without a C compiler")

PROGRAM = """
import os
import threading

import numpy as np
import taupy

def matrix(dtype):
    a = np.ones((100, 200), dtype)
    b = np.ones((200, 300), dtype)
    for _ in range(3):
        c = a @ b
    return c

def vector():
    return np.ones((50, 80)) @ np.ones(80)

def dot():
    return np.dot(np.arange(1000.0), np.arange(1000.0))

def square():
    a = np.ones((60, 40))
    return a @ a.T

def complex_product():
    return np.ones((10, 20), complex) @ np.ones((20, 30), complex)

def in_a_thread():
    matrix(np.float32)

def in_a_child():
    dot()

print(matrix(np.float64)[0, 0], vector()[0], dot(), square()[0, 0], complex_product()[0, 0])
thread = threading.Thread(target=in_a_thread)
thread.start()
thread.join()
child = os.fork()
if child == 0:
    in_a_child()
    os._exit(0)
os.waitpid(child, 0)
for turns in (1, 2):
    with taupy.step():
        for _ in range(turns):
            np.dot(np.ones(500), np.ones(500))
"""


def run(folder, *options):
    (folder / "p.py").write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, "-m", "taupy", "run", "--db", "t.db", *options, "p.py"],
        capture_output=True,
        text=True,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("operations")


@pytest.fixture(scope="module")
def events(folder):
    """(node, routine, event) -> sum over calls."""
    done = run(folder, "--metrics", "analytic")
    assert done.returncode == 0, done.stderr
    plain = subprocess.run(
        [sys.executable, "p.py"], capture_output=True, text=True, cwd=folder, check=True
    )
    assert done.stdout == plain.stdout
    assert "analytic: flop and bytes are derived from the shapes of BLAS calls" in done.stderr
    sums = {}
    with ProfileDB.open(folder / "t.db") as db:
        for row in query.user_events(db, 1):
            if row.callpath and row.event.startswith(("flop", "bytes")):
                routine = row.callpath.rpartition(" => ")[2].partition(" [")[0]
                key = row.node, routine, row.event
                sums[key] = sums.get(key, 0) + row.mean * row.count
    return sums


@pytest.mark.slow
def test_a_matrix_product_counts_2mnk(events):
    assert events[0, "matrix", "flop_fp64"] == 3 * 2 * 100 * 200 * 300
    # Each operand is read once, the result written once.
    doubles = 3 * (100 * 200 + 200 * 300 + 100 * 300)
    assert events[0, "matrix", "bytes_dram"] == doubles * 8 + doubles * 4
    assert events[0, "matrix", "flop_fp32"] == 3 * 2 * 100 * 200 * 300


def test_other_products_count_what_they_must(events):
    assert events[0, "vector", "flop_fp64"] == 2 * 50 * 80
    assert events[0, "dot", "flop_fp64"] == 2 * 1000
    assert events[0, "dot", "bytes_dram"] == 2 * 1000 * 8
    # NumPy knows that the result is symmetric: half of it is computed.
    assert events[0, "square", "flop_fp64"] in (60 * 61 * 40, 2 * 60 * 60 * 40)
    assert events[0, "complex_product", "flop_fp64"] == 8 * 10 * 20 * 30


def test_a_child_has_its_own(events):
    assert events[1, "dot", "flop_fp64"] == 2000
    assert (1, "matrix", "flop_fp64") not in events


def test_steps_are_points_of_a_roofline(folder, events, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["roofline", "--db", "t.db", "--by", "step", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {name: (row["flop_fp64"], row["bytes_DRAM"]) for name, row in rows.items()} == {
        "step 1": (1000, 8000),
        "step 2": (2000, 16000),
    }
    assert {row["flop_tier"] for row in rows.values()} == {"analytic"}
    assert main(["pivot", "--db", "t.db", "--by", "step", "--cell", "flop_fp64", "--csv"]) == 0
    assert "1,1000.0" in capsys.readouterr().out


@pytest.mark.slow
def test_without_it_nothing_is_put_in_between(tmp_path):
    (tmp_path / "p.py").write_text(
        "import numpy\nnumpy.ones((9, 9)) @ numpy.ones((9, 9))\n"
        "print('_native/blas' in open('/proc/self/maps').read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "taupy", "run", "--db", "t.db", "p.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout == "False\n"


def test_the_plain_engine_says_that_it_cannot(tmp_path):
    done = run(tmp_path, "--metrics", "analytic", "--engine", "python")
    assert done.returncode == 0
    assert "analytic: counting BLAS calls needs taupy's compiled library" in done.stderr
