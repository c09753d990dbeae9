"""Real programs: the routine at fault is among the places of the report, and the run names it."""

from __future__ import annotations

import json
import re

import pytest

SERVICE = """\
import asyncio, hashlib, json, sqlite3, time
db = sqlite3.connect("audit.db")
db.execute("create table if not exists audit(t real, who text)")
def check_password(word):
    return hashlib.pbkdf2_hmac("sha256", word.encode(), b"salt", 60_000).hex()
def audit(who):
    db.execute("insert into audit values (?,?)", (time.time(), who))
    db.commit()
async def handle(reader, writer):
    request = json.loads(await reader.readline())
    if request["op"] == "login":
        check_password(request["word"])
    await asyncio.sleep(0.002)
    audit(request["who"])
    writer.write(b"ok\\n")
    await writer.drain()
    writer.close()
async def client(port, i):
    for _ in range(3):
        r, w = await asyncio.open_connection("127.0.0.1", port)
        op = "login" if i % 4 == 0 else "ping"
        w.write(json.dumps({"op": op, "who": f"u{i}", "word": "x" * 10}).encode() + b"\\n")
        await r.readline()
        w.close()
async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(port, i) for i in range(12)))
    server.close()
asyncio.run(main())
"""

LOCK_OVER_A_SLEEP = """\
import threading, time
lock = threading.Lock()
def score(x):
    s = 0
    for i in range(500):
        s = (s * 31 + x + i) % 1000003
    return s
def worker():
    for x in range(60):
        with lock:
            time.sleep(0.004)
            score(x)
threads = [threading.Thread(target=worker) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

AWAITS_IN_SEQUENCE = """\
import asyncio
async def fetch(i):
    await asyncio.sleep(0.01)
    return i
async def load(n):
    return [await fetch(i) for i in range(n)]
asyncio.run(load(50))
"""

AWAITS_WITHOUT_WAITING = """\
import asyncio
async def app():
    ready = asyncio.Event()
    ready.set()
    for _ in range(50):
        await ready.wait()
def serve():
    loop = asyncio.new_event_loop()
    loop.create_task(app())
    loop.call_later(0.5, loop.stop)
    loop.run_forever()
serve()
"""

FORKED = """\
import os
def work():
    sum(i * i for i in range(300_000))
def serve():
    if os.fork() == 0:
        work()
        os._exit(0)
    os.wait()
serve()
"""


def _places(runs):
    return json.loads(runs.taupy("report", "--db", str(runs.database), "--json").stdout)["places"]


def _first(rows, group, kind="own"):
    return [
        row["routine"] for row in rows if row["threads_group"] == group and row["kind"] == kind
    ][:5]


def test_what_blocks_an_event_loop_is_among_the_five_places(runs):
    runs.run(SERVICE)
    assert {"check_password", "audit"} <= {*_first(_places(runs), "main thread")}


def test_threads_that_share_a_lock_over_a_sleep_are_the_hottest_place(runs):
    ended = runs.run(LOCK_OVER_A_SLEEP)
    rows = _places(runs)
    assert _first(rows, "other threads")[0] == "worker"
    assert _first(rows, "main thread", "waiting")[0] == "<module>"
    routine = r"mostly waiting in worker \(prog.py:(8|10)\): .* of 4 other threads"
    finding = r"one thread at a time: lock held at prog.py:(8|10), "  # in a run of a second
    assert re.search(rf"; ({routine}|{finding})", ended.stderr), ended.stderr


def test_a_coroutine_that_was_never_suspended_did_not_wait(runs):
    runs.run(AWAITS_WITHOUT_WAITING)
    assert _first(_places(runs), "main thread", "waiting")[0] == "serve"


@pytest.mark.slow
def test_awaits_in_sequence_show_as_waiting_of_the_coroutine(runs):
    ended = runs.run(AWAITS_IN_SEQUENCE)
    (waiting,) = [
        row for row in _places(runs) if row["kind"] == "waiting" and row["routine"] is not None
    ]
    assert (waiting["routine"], waiting["file"], waiting["line"], waiting["calls"]) == (
        "fetch", "prog.py", 2, 50,
    )  # fmt: skip
    assert (waiting["caller"], waiting["calls_by_caller"]) == ("load", 50)
    # On a busy machine, importing asyncio takes long.
    assert re.search(r"; mostly waiting in fetch \(prog\.py:[23]\): |% of it imports", ended.stderr)


@pytest.mark.slow
def test_a_forked_process_works_under_a_heading_of_its_own(runs):
    runs.run(FORKED)
    rows = _places(runs)
    assert _first(rows, "worker processes")[0] == "work"
    assert "work" not in _first(rows, "main thread")


@pytest.mark.slow
def test_packages_that_an_installer_put_into_a_folder_are_libraries(runs):
    """`pip install --target`; a folder without what installers leave there is the program's."""
    for folder, name in (("packages", "bought"), ("sources", "made")):
        (runs.folder / folder).mkdir()
        (runs.folder / folder / f"{name}.py").write_text(
            "def work():\n    return sum(n * n for n in range(100_000))\n"
        )
    (runs.folder / "packages" / "bought-1.dist-info").mkdir()
    runs.environment["PYTHONPATH"] = "packages:sources"
    runs.run(
        "import bought, made\ndef f():\n    bought.work()\ndef g():\n    made.work()\nf(); g()\n"
    )
    rows = _places(runs)
    assert {row["routine"] for row in rows if row["kind"] == "own"} == {
        "f",
        "work",
        "<module>",
        "g",
    }
    callees = {row["routine"]: row["callee"] for row in rows}
    assert (callees["f"], callees["g"]) == ("work", None)


DECORATORS = """\
import functools
def compiled(function):
    space = {"function": function}
    text = f"def {function.__name__}_7(*args):\\n    return function(*args)"
    exec(compile(text, "<compiled by bought>", "exec"), space)
    return space[f"{function.__name__}_7"]
def checked(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper
@checked
@compiled
def centrality(n):
    return sum(i * i for i in range(n))
@checked
@compiled
def communities(n):
    return sorted(range(n), key=lambda i: -i)
@compiled
def shares(n):
    return [i / n for i in range(n)]
"""


def test_what_a_wrapper_is_for_is_what_the_program_calls(runs):
    """Whether a decorator returns a function of its own or has compiled one."""
    (runs.folder / "packages").mkdir()
    (runs.folder / "packages" / "bought.py").write_text(DECORATORS)
    (runs.folder / "packages" / "bought-1.dist-info").mkdir()
    runs.environment["PYTHONPATH"] = "packages"
    runs.run(
        "import bought\nn = 100_000\ndef f():\n    bought.centrality(n)\n"
        "    bought.communities(n)\n    bought.shares(n)\nf()\n"
    )
    (f,) = [row for row in _places(runs) if row["routine"] == "f"]
    called = {callee["routine"]: callee["calls"] for callee in f["callees"]}
    assert called == {"centrality": 1, "communities": 1, "shares": 1}


def test_of_one_routine_no_place_is_named(runs):
    """Nor are modules imported to find it, which would be felt in a short run."""
    ended = runs.run("i = 0\nwhile i < 300_000:\n    i += 1\n")
    assert re.fullmatch(r"taupy: trial 1: [^;,]*\ntaupy: next: taupy report 1\n", ended.stderr)


@pytest.mark.slow
def test_a_script_without_functions_ends_with_its_line_if_it_takes_long(runs):
    """It has a single routine, and many lines."""
    ended = runs.run("import time\nprint('idle')\ntime.sleep(1.5)\n")
    assert re.search(r"; [a-z ]+ in <module> \(prog\.py:3\): .*: time\.sleep", ended.stderr)


@pytest.mark.slow
def test_the_command_that_a_run_ends_with_can_be_run(runs):
    ended = runs.run("def f():\n    return sum(range(10_000_000))\nf()\n")
    command = re.search(r"^taupy: next: taupy (report 1)$", ended.stderr, re.MULTILINE)
    assert re.search(r"; (most in|hottest is) (f [(])?prog.py:", ended.stderr)
    assert command is not None
    shown = runs.taupy(*command[1].split())
    assert shown.returncode == 0 and re.search(r" prog\.py:[12]\b", shown.stdout)
    elsewhere = runs.folder / "other" / "t.db"
    elsewhere.parent.mkdir()
    ended = runs.taupy("run", "--db", str(elsewhere), "prog.py")
    assert f"taupy: next: taupy report 1 --db {elsewhere}\n" in ended.stderr
    assert runs.taupy("run", "--quiet", "prog.py").stderr == ""
