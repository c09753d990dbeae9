"""`taupy serve`: Datasette with our pages, over HTTP."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from urllib.parse import quote, urlencode, urlsplit

import pytest

from taupy.profiledb import pages
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, random_profile, small_profile
from tests.hostile import UNSAFE, Tags, hostile
from tests.integration.conftest import Runs


def fill(path):
    from random import Random

    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile(1, metadata={"n": "1", "color": "red"}))
        add_profile(db, gpu_profile(2))
        add_profile(db, small_profile(3, metadata={"n": "2", "color": "blue"}))
        add_profile(db, random_profile(Random(4), 4))


@contextmanager
def served(runs, name, *options):
    """A server on a free port: its process and address."""
    with subprocess.Popen(
        [sys.executable, "-m", "taupy", "serve", name, "--port", "0", *options],
        cwd=runs.folder,
        env=runs.environ(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stderr.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{30,}/", line)
            assert address, line + process.stderr.read()
            assert "Ctrl-C" in process.stderr.readline()
            fetch(address[0])  # it is there when it is named
            yield process, address[0]
        finally:
            process.kill()


def fetch(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


def status(url, method="GET", **headers):
    """The status and the headers of an answer, whatever it is."""
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as refused:
        refused.read()
        return refused.code, refused.headers


def refused(url):
    """The page of an answer that is an error."""
    with pytest.raises(urllib.error.HTTPError) as problem:
        urllib.request.urlopen(url, timeout=120)
    return problem.value.read().decode()


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
        root = re.match("http://[^/]+", address)[0]
        base = re.search(r'href="(/[^"/]+/[^"/]+)/top_routines', start)[1]
        assert "odd name?#50%.db" in start
        assert "NVIDIA H200" in start and "2023-11-14 22:13:20" in start
        assert set(QUESTIONS) == set(pages.PAGES)
        for name, parameters in QUESTIONS.items():
            place = f"{root}{base}/{name}"
            assert pages.PAGES[name].title in fetch(place)
            answer = json.loads(fetch(f"{place}.json?_shape=array&{urlencode(parameters)}"))
            assert bool(answer) == (name != "ceilings_of_processors"), name
            assert "<table" in fetch(f"{place}?{urlencode(parameters)}") or not answer
        for table in pages.TABLES:
            page = fetch(f"{root}{base}/{quote(table)}")
            assert pages.TABLES[table].split("'")[0] in page, table
        row = fetch(f"{root}{base}/trial/2")
        assert "launch" in row  # rows that refer to it
        for statement in ("delete from trial", "pragma query_only = off", "attach 'x' as y"):
            url = f"{root}{base}?{urlencode({'sql': statement})}"
            with pytest.raises(urllib.error.HTTPError) as refused:
                fetch(url)
            assert refused.value.code == 400
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == ""
    assert path.read_bytes() == before


@pytest.mark.slow
def test_reports_are_one_link_away(runs):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    fill(runs.folder / "a.db")
    before = (runs.folder / "a.db").read_bytes()
    with served(runs, "a.db") as (_, address):
        root = re.match("http://[^/]+", address)[0]
        start = fetch(address)
        links = re.findall(r'href="(/[^"]+/-/report/\d+)"', start)
        assert len(links) == 8  # twice for each trial
        page = fetch(root + links[-1])
        assert "<h1>Trial 1: app &gt; default &gt; 1</h1>" in page
        assert "connect-src" not in page.partition("</head>")[0]
        _, headers = status(root + links[-1])
        assert "default-src 'none'" in headers["content-security-policy"]
        form = re.search(r'<form action="([^"]+/-/report)">', start)[1]
        assert "Facts that differ" in unpacked(fetch(f"{root}{form}?a=1&b=3"))
        assert [status(f"{root}{form}{more}")[0] for more in ("/99", "?a=1&b=99", "")] == [
            404,
            404,
            400,
        ]
        assert status(f"{root}/-/report/1")[0] == 403
        assert status(root + links[0], "POST")[0] == 405
    assert (runs.folder / "a.db").read_bytes() == before


@pytest.mark.slow
def test_every_trial_is_found_in_the_list_and_two_are_ticked(runs):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    with ProfileDB.open(runs.folder / "a.db", create=True) as db:
        for number in range(1, 131):
            gate = {"gate": "g"} if number < 5 else {}
            profile = small_profile(
                1, application=f"app{number % 2}", name=f"n{number}", metadata=gate
            )
            id = add_profile(db, replace(profile, uuid=f"01900000-0000-7000-8000-{number:012}"))
            if number == 7:
                db.tag(id, "base")
    with served(runs, "a.db") as (_, address):

        def listed(query: str) -> list[int]:
            return [
                int(id) for id in re.findall('name="t" value="([0-9]+)"', fetch(address + query))
            ]

        rows = [*range(130, 4, -1), 4]
        assert listed("") == rows[:100] and "last of 4 runs" in fetch(f"{address}?from=100")
        assert listed("?from=100") == rows[100:]
        assert listed("?each=1&from=100") == list(range(30, 0, -1))
        assert ["<th>Tags</th>" in fetch(f"{address}?q=n{at}") for at in (7, 99)] == [True, False]
        assert "<th>GPUs</th>" not in fetch(address)  # no column without data
        assert listed("?q=BASE") == [7] and listed("?q=app0+n12") == [128, 126, 124, 122, 120, 12]
        assert listed("?q=nothing") == [] and "No trial has" in fetch(f"{address}?q=nothing")
        assert listed("?from=x") == listed("?from=-5") == rows[:100] and listed("?from=999") == []
        page = fetch(f"{address}-/report?t=9&t=7")
        assert re.search("<title>A: trial 7,.* B: trial 9,", page)
        assert f'<a href="/{address.split("/")[3]}/">' in page  # the way back
        assert [status(f"{address}-/report?{ticked}")[0] for ticked in ("t=7", "t=7&t=8&t=9")] == [
            400,
            400,
        ]
        with pytest.raises(urllib.error.HTTPError) as none:
            fetch(f"{address}-/report?")
        assert "0 trials ticked" in none.value.read().decode()
        assert "<title>a: SQL</title>" in fetch(f"{address}a?sql=select+1+as+long_statement")


def unpacked(page: str) -> str:
    contents = re.search(r'id="contents">([^<]*)</script>', page)[1]
    return zlib.decompress(base64.b64decode(contents)).decode()


@pytest.fixture(scope="module")
def hostile_server(tmp_path_factory):
    """A server of a hostile trial: its address, its folder for temporary files."""
    pytest.importorskip("datasette", reason="Datasette is an extra")
    runs = Runs(tmp_path_factory.mktemp("serve"))
    with ProfileDB.open(runs.folder / "a.db", create=True) as db:
        add_profile(db, hostile(small_profile(1)))
        add_profile(db, hostile(gpu_profile(2)))
    with served(runs, "a.db") as (_, address):
        yield address


@pytest.mark.parametrize(
    ("place", "headers", "code"),
    [
        ("{address}", {}, 200),
        ("{root}/", {}, 403),
        ("{root}/a", {}, 403),
        ("{root}/a/top_routines.json", {}, 403),
        ("{root}/-/static/app.css", {}, 403),
        ("{root}/" + "A" * 32 + "/", {}, 403),
        ("{root}/?token={token}", {}, 403),
        ("{root}/..{path}", {}, 403),
        ("{address}", {"Host": "evil.example"}, 421),
        ("{address}", {"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ("{address}", {"Host": "127.0.0.1"}, 421),
        ("{address}", {"Host": "localhost:{port}"}, 200),
    ],
)
def test_only_who_knows_the_address_may_look(hostile_server, place, headers, code):
    root, token = re.match(r"(http://[^/]+)/([^/]+)/", hostile_server).groups()
    words = {"address": hostile_server, "root": root, "token": token, "path": f"/{token}/"}
    words["port"] = root.rpartition(":")[2]
    headers = {name: value.format(**words) for name, value in headers.items()}
    assert status(place.format(**words), **headers)[0] == code


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_only_read(hostile_server, method):
    assert status(hostile_server, method)[0] == 405
    assert status(f"{hostile_server}-/logout", method)[0] == 405


def test_no_page_lets_a_hostile_text_through(hostile_server):
    root = re.match("http://[^/]+", hostile_server)[0]
    start = fetch(hostile_server)
    links = set(re.findall(r'href="(/[^"]+)"', start))
    for table in ("trials", "trial", "timer", "metadata", "pprof?trial_id=1", "user_events"):
        links.add(f"{re.match('http://[^/]+(/.*)', hostile_server)[1]}a/{table}")
    assert len(links) > 20
    tried = 0
    for link in sorted(links):
        page = fetch(root + link.replace("&amp;", "&"))
        assert "<script>alert" not in page, link
        if "html" in page[:100]:
            tags = Tags(page)
            assert not [name for name, _ in tags.attributes if name.startswith("onl")]
            assert not UNSAFE.search(page.replace("\t", " ").replace("\r", " ")), link
            tried += "cmd|" in page
    assert tried > 5


def test_every_answer_has_headers_that_keep_other_sites_out(hostile_server):
    for place in ("", "a", "a/trials.json", "a/trials.csv", "nothing"):
        _, headers = status(hostile_server + place)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["access-control-allow-origin"] is None


def test_a_spreadsheet_sees_no_formula_in_a_table(hostile_server):
    for place in (
        "a/trials.csv",
        "a/timer.csv?_size=max",
        "a/trials.csv?_dl=1",
    ):
        rows = list(csv.reader(io.StringIO(fetch(hostile_server + place))))
        assert len(rows) > 2, place
        cells = [cell for row in rows for cell in row]
        assert any(cell.startswith("'=cmd") for cell in cells), place
        assert not [cell for cell in cells if cell.startswith("=") or ";=" in cell]
        assert not UNSAFE.search("".join(cells))
    assert "-5" in fetch(f"{hostile_server}a.csv?sql=select+-5")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_behind(runs, number, monkeypatch):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    fill(runs.folder / "odd?.db")
    (runs.folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(runs.folder / "tmp"))
    with served(runs, "odd?.db") as (process, _):
        process.send_signal(number)
        process.wait(timeout=120)
    assert list((runs.folder / "tmp").iterdir()) == []


@pytest.mark.slow
def test_the_browser_does_not_get_the_address_where_others_can_read_it(runs, monkeypatch):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    fill(runs.folder / "a.db")
    (runs.folder / "tmp").mkdir()
    browser = runs.folder / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > told\nsed s/file:..// told | xargs cat > page\n')
    browser.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(runs.folder / "tmp"))
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with served(runs, "a.db", "--open") as (process, address):
        for _ in range(100):
            if (runs.folder / "page").exists() and (runs.folder / "page").read_text():
                break
            time.sleep(0.1)
        token = address.split("/")[3]
        assert token not in (runs.folder / "told").read_text()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
    assert list((runs.folder / "tmp").iterdir()) == []


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
    alone = ask("compare_two_trials", a="", b="3", metric="time")
    assert {(row["a"], row["difference"], row["in"]) for row in alone} == {(None, None, "only b")}
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
    result = runs.plain(
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'datasette' else find(name, *a)\n"
        "from taupy.commands import main\n"
        "sys.exit(main(['serve', 'a.db']))\n"
    )
    assert result.returncode == 1
    assert "pip install 'taupy-profiler[serve]'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_what_is_not_there_is_said_on_the_page_and_not_on_the_terminal(runs):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    fill(runs.folder / "a.db")
    with served(runs, "a.db") as (process, address):
        for place, code in {
            "a/nothing": 404, "nothing": 404, "a/nothing.json": 404, "/x": 404, "a/trial/%00": 404,
            "a/top_routines?trial=%27": 200, "a?sql=SELEC": 400, "a.json?sql=SELECT+nothing": 400,
            "-/report/nothing": 404, "../../etc/passwd": 404,
        }.items():  # fmt: skip
            assert status(address + place)[0] == code, place
            if code == 404 and ".json" not in place:
                page = refused(address + place)
                assert "prefers-color-scheme: dark" in page, place
                assert f'<a href="/{address.split("/")[3]}/">All trials</a>' in page, place
        assert "prefers-color-scheme: dark" in fetch(f"{address}a/trial")  # Datasette's own
        process.terminate()
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_who_does_not_know_the_address_cannot_use_up_its_connections(runs):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    fill(runs.database)
    with served(runs, "taupy.db") as (process, address), ExitStack() as stack:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (512, 512))
        place = ("127.0.0.1", urlsplit(address).port)
        for _ in range(600):
            connection = stack.enter_context(socket.create_connection(place))
            with suppress(OSError):
                connection.sendall(b"GET /x HTTP/1.1\r\n")
        stack.enter_context(socket.create_connection(place)).sendall(b"no HTTP\r\n\r\n")
        assert "Trials" in fetch(address)
        process.terminate()
        assert process.stderr.read() == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none.db", "text.txt"])
def test_what_is_no_database_is_refused(runs, name):
    (runs.folder / "text.txt").write_text("x" * 200)
    result = runs.taupy("serve", name)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)


@pytest.mark.slow
def test_a_table_with_a_long_name_is_shown(runs):
    pytest.importorskip("datasette", reason="Datasette is an extra")
    fill(runs.database)
    name = "a" * 1000
    with sqlite3.connect(runs.database) as connection:
        connection.execute(f"CREATE TABLE {name} (x)")
    connection.close()
    with served(runs, "taupy.db") as (_, address):
        for place in ("", "taupy", "taupy.json", f"taupy/{name}"):
            assert status(address + place)[0] == 200, place


@pytest.mark.slow
def test_large_values_of_one_request_do_not_stop_the_others(runs):
    fill(runs.database)
    name = runs.database.stem
    large = "hex(zeroblob(900000000))"
    many = "SELECT hex(zeroblob(500000)) FROM (VALUES (1), (2), (3)), timer_value, timer_value AS b"
    with served(runs, "taupy.db") as (_, address):
        for sql in (
            *(f"SELECT {large}" for _ in range(4)),
            *("SELECT printf('%.*c', 2000000000, 'x')" for _ in range(4)),
            *("SELECT trim(printf('%999999s', ''), printf('%999999c ', 'x'))" for _ in range(4)),
            many,
            "SELECT fts3_tokenizer('simple')",
        ):
            code, _ = status(f"{address}{name}.json?{urlencode({'sql': sql})}")
            assert code == 400, sql
        assert "Trials" in fetch(address)
