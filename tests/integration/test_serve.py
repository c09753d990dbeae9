"""`taupy serve`: Datasette with our pages, over HTTP."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import quote, urlencode

import pytest

from taupy.profiledb import pages
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, random_profile, small_profile


def fill(path):
    from random import Random

    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile(1, metadata={"n": "1", "color": "red"}))
        add_profile(db, gpu_profile(2))
        add_profile(db, small_profile(3, metadata={"n": "2", "color": "blue"}))
        add_profile(db, random_profile(Random(4), 4))


@contextmanager
def served(runs, name):
    """A server on a free port: its process and address."""
    with subprocess.Popen(
        [sys.executable, "-m", "taupy", "serve", name, "--port", "0"],
        cwd=runs.folder,
        env=runs.environ(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stderr.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert address, line + process.stderr.read()
            wait_for(address[0])
            yield process, address[0]
        finally:
            process.kill()


def wait_for(address):
    import time

    for _ in range(300):
        try:
            return fetch(address)
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError(f"nobody answers at {address}")


def fetch(url):
    with urllib.request.urlopen(url, timeout=120) as answer:
        return answer.read().decode()


QUESTIONS = {
    "top_routines": {"trial": "1", "metric": ""},
    "call_paths": {"trial": "", "metric": "time"},
    "gpu_kernels": {"trial": "2"},
    "compare_two_trials": {"a": "1", "b": "4", "metric": ""},
    "sweep": {"over": "n"},
    "routine_over_trials": {"routine": "g"},
    "load_imbalance": {"trial": "1"},
    "user_events_of_a_trial": {"trial": "1"},
    "metadata_that_differ": {"a": "1", "b": "3"},
    "ceilings_of_processors": {},
}


@pytest.mark.slow
def test_every_page_answers_in_a_browser(runs):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    path = runs.folder / "odd name?#50%.db"  # characters that mean something in addresses
    fill(path)
    before = path.read_bytes()
    with served(runs, path.name) as (process, address):
        start = fetch(address)
        base = re.search(r'href="(/[^"/]+)/top_routines', start)[1]
        assert "odd name?#50%.db" in start
        assert "NVIDIA H200" in start and "2023-11-14 22:13:20" in start
        assert set(QUESTIONS) == set(pages.PAGES)
        for name, parameters in QUESTIONS.items():
            place = f"{address.rstrip('/')}{base}/{name}"
            assert pages.PAGES[name].title in fetch(place)
            answer = json.loads(fetch(f"{place}.json?_shape=array&{urlencode(parameters)}"))
            assert bool(answer) == (name != "ceilings_of_processors"), name
            assert "<table" in fetch(f"{place}?{urlencode(parameters)}") or not answer
        for table in pages.TABLES:
            page = fetch(f"{address.rstrip('/')}{base}/{quote(table)}")
            assert pages.TABLES[table].split("'")[0] in page, table
        row = fetch(f"{address.rstrip('/')}{base}/trial/2")
        assert "launch" in row  # rows that refer to it
        for statement in ("delete from trial", "pragma query_only = off", "attach 'x' as y"):
            url = f"{address.rstrip('/')}{base}?{urlencode({'sql': statement})}"
            with pytest.raises(urllib.error.HTTPError) as refused:
                fetch(url)
            assert refused.value.code == 400
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == ""
    assert path.read_bytes() == before


def test_pages_answer_as_the_tables_say(tmp_path):
    fill(tmp_path / "a.db")

    def ask(page, **parameters):
        with ProfileDB.open(tmp_path / "a.db") as db:
            cursor = db.connection.execute(pages.PAGES[page].sql, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    top = ask("top_routines", trial="1", metric="")
    assert [(row["timer"], row["exclusive"]) for row in top[:2]] == [
        ("g [{app.py}{9}]", 97),
        ("f [{app.py}{3}]", 50),
    ]
    assert sum(row["exclusive_percent"] for row in top) == pytest.approx(100, abs=0.1)
    (gemm, copy, relu) = ask("gpu_kernels", trial="2")
    assert (gemm["kernel"], gemm["launches"], gemm["time_ms"]) == ("gemm", 10, 0.005)
    assert (gemm["mean_us"], gemm["minimum_us"], gemm["maximum_us"]) == (0.5, 0.29, 0.6)
    assert (gemm["blocks_least"], gemm["blocks_most"], gemm["occupancy"]) == (64, 128, 0.5)
    assert (copy["bytes"], relu["threads_a_block"]) == (40_960, 256)
    same = ask("compare_two_trials", a="1", b="3", metric="time")
    assert {row["difference"] for row in same} == {0} and {row["ratio"] for row in same} == {1}
    rows = ask("sweep", over="n")
    assert [(row["parameter"], row["speedup"]) for row in rows] == [("1", 1), ("2", 1)]
    differ = ask("metadata_that_differ", a="1", b="3")
    assert [(row["name"], row["a"], row["b"]) for row in differ] == [
        ("color", "red", "blue"),
        ("n", "1", "2"),
    ]
    (row,) = [row for row in ask("load_imbalance", trial="1") if row["timer"][0] == "g"]
    # 90 ns on one thread, 7 on the other
    assert (row["threads"], row["imbalance_percent"]) == (2, 85.6)
    over = ask("routine_over_trials", routine="g [")
    assert [(row["trial_id"], row["calls"], row["threads"]) for row in over] == [
        (1, 10, 2),
        (3, 10, 2),
    ]
    assert ask("call_paths", trial="1", metric="time")[0]["path"].endswith("=> g [{app.py}{9}]")


def test_every_table_and_view_is_described(tmp_path):
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        columns = pages.columns(db)
    assert set(pages.TABLES) == set(columns)
    assert not set(pages.PAGES) & set(columns)  # they would share an address
    described = pages.metadata("a", "a", columns)["databases"]["a"]["tables"]
    for view in ("trials", "pprof", "callpaths"):
        untold = set(columns[view]) - set(described[view]["columns"]) - {"trial", "thread"}
        assert untold == set(), view
    assert described["trial"]["units"] == {"duration_ns": "ns"}


def test_a_port_that_is_taken_is_refused_in_one_line(runs):
    fill(runs.folder / "a.db")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = runs.taupy("serve", "a.db", "--port", str(taken.getsockname()[1]))
    assert result.returncode == 1
    assert "choose another with --port" in result.stderr and result.stderr.count("\n") == 1


def test_without_datasette_one_line_says_what_to_install(runs):
    fill(runs.folder / "a.db")
    (runs.folder / "without.py").write_text(
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'datasette' else find(name, *a)\n"
        "from taupy.commands import main\n"
        "sys.exit(main(['serve', 'a.db']))\n"
    )
    result = subprocess.run(
        [sys.executable, "without.py"],
        cwd=runs.folder,
        env=runs.environ(),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "pip install 'taupy-profiler[serve]'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["none.db", "text.txt"])
def test_what_is_no_database_is_refused(runs, name):
    (runs.folder / "text.txt").write_text("x" * 200)
    result = runs.taupy("serve", name)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
