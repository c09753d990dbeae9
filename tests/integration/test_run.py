"""`taupy run`: from a program to its trial."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.integration.conftest import names_next

FIB = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(10)
"""


def test_counts_are_exact(runs, engine):
    done = runs.run(FIB, "--engine", engine)
    assert done.returncode == 0, done.stderr
    assert runs.calls()["fib"] == 177  # 2 * 89 - 1 calls for fib(10)
    assert runs.calls()["<module>"] == 1


def test_the_tree_adds_up(runs, native):
    runs.run(FIB, "--engine", native)
    rows = runs.sql(
        """SELECT value.callpath_id, callpath.parent_id, value.inclusive, value.exclusive,
                  call.calls, call.subroutines
             FROM interval_value AS value JOIN call USING (trial_id, callpath_id, thread_id)
             JOIN callpath ON callpath.id = value.callpath_id"""
    )
    inclusive, calls = {}, {}
    for _, parent, total, _, times, _ in rows:
        inclusive[parent] = inclusive.get(parent, 0) + total
        calls[parent] = calls.get(parent, 0) + times
    for path, _, total, own, _, subroutines in rows:
        assert 0 <= own <= total
        assert total == own + inclusive.get(path, 0)
        assert subroutines == calls.get(path, 0)


@pytest.mark.slow
def test_recursion_counts_inclusive_time_once(runs, native):
    runs.run(
        "import time\ndef down(n):\n  time.sleep(0.02)\n  if n: down(n - 1)\ndown(4)\n",
        "--engine",
        native,
    )
    total, whole = runs.one(
        """SELECT value.inclusive, (SELECT duration_ns FROM trial) FROM timer_value AS value
             JOIN timer ON timer.id = timer_id WHERE short_name = 'down'"""
    )
    assert 5 * 20_000_000 <= total <= whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('words')", 1),
        ("import os; os._exit(9)", 9),
        ("1 / 0", 1),
        ("pass", 0),
    ],
)
def test_the_exit_code_is_the_programs(runs, native, source, status):
    done = runs.run("def f(): pass\nf()\n" + source)
    assert done.returncode == status
    assert runs.one("SELECT exit_code, state FROM trial") == (status, "complete")
    assert runs.calls()["f"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", [("-m", "no_such"), ("-m", "json.no_such")])
def test_a_module_that_is_not_there_is_no_trial(runs, native, target):
    done = runs.taupy("run", "--engine", native, *target)
    plain = subprocess.run(
        [sys.executable, *target], cwd=runs.folder, capture_output=True, text=True
    )
    assert done.returncode == plain.returncode == 1
    assert done.stderr == plain.stderr + (
        "taupy: nothing was measured: the program ended before its first routine, or could write "
        "no file\n"
    )
    assert not runs.database.exists()


@pytest.mark.slow
def test_a_package_that_was_imported_on_the_way_is_a_trial(runs, native):
    (runs.folder / "package").mkdir()
    (runs.folder / "package" / "__init__.py").write_text("def f(): pass\nf()\n")
    runs.taupy("run", "-m", "package.missing")
    assert runs.one("SELECT exit_code, state FROM trial") == (1, "complete")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "status"), [("try: raise SystemExit(3)\nfinally: pass", 3), ("1 / 0", 1)]
)
def test_the_exit_code_of_a_module_is_the_programs(runs, native, source, status):
    (runs.folder / "module.py").write_text(source)
    assert runs.taupy("run", "--engine", native, "-m", "module").returncode == status
    assert runs.one("SELECT exit_code, state FROM trial") == (status, "complete")


@pytest.mark.slow
def test_a_usage_error_over_an_option_of_taupys_is_explained(runs, native):
    source = "import sys; sys.exit(int(sys.argv[1]))"
    said = "it got --c-calls, which is also an option of taupy: those stand before the script"
    assert said in runs.run(source, arguments=("2", "--c-calls")).stderr
    assert said not in runs.run(source, arguments=("1", "--c-calls")).stderr
    assert "also an option of taupy" not in runs.run(source, arguments=("2", "--own")).stderr


@pytest.mark.slow
def test_an_interrupt_kills_as_it_would_and_the_trial_is_stored_first(runs, native):
    done = runs.run("def f(): raise KeyboardInterrupt\nf()\n")
    assert done.returncode == -signal.SIGINT
    assert "taupy: trial 1" in done.stderr
    assert runs.one("SELECT exit_code, state FROM trial") == (-2, "complete")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGQUIT", "SIGSEGV", "SIGABRT"])
def test_a_killed_program_is_recovered_by_the_next_command(runs, native, name):
    done = runs.run(
        f"""
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def f(): pass
for _ in range(1000): f()
def last(): os.kill(os.getpid(), signal.{name})
last()
""",
        "--no-watch",
    )
    assert done.returncode == -getattr(signal, name)
    assert not runs.database.exists()
    told = runs.taupy("doctor", "--db", str(runs.database)).stderr
    assert "recovered" in told and "incomplete" in told
    calls = {name: n for name, n in runs.calls().items() if not name.startswith("import ")}
    assert calls == {".taupy application": 1, "<module>": 1, "f": 1000, "last": 1}
    assert runs.one("SELECT exit_code, state FROM trial") == (None, "incomplete")
    assert list(runs.state.iterdir()) == []
    again = runs.taupy("trials")
    assert "recovered" not in again.stderr
    assert " killed " in again.stdout
    assert runs.one("SELECT count(*) FROM trial") == 1


@pytest.mark.slow
def test_forked_and_spawned_children_become_nodes(runs, native):
    done = runs.run(
        """
import multiprocessing, os, subprocess, sys
def work(): pass
def child():
    for _ in range(5): work()
if __name__ == "__main__":
    if os.fork() == 0:
        child(); os._exit(0)
    os.wait()
    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=child)
        process.start(); process.join()
    for env in (None, dict(os.environ)):
        subprocess.run([sys.executable, "-c", "def sub(): pass\\nsub()"], env=env, check=True)
"""
    )
    assert done.returncode == 0, done.stderr
    calls = runs.calls()
    assert calls["work"] == 4 * 5
    assert calls["child"] == 4
    assert runs.one("SELECT count(*) FROM timer WHERE short_name = 'sub'") == 1
    nodes = [row[0] for row in runs.sql("SELECT DISTINCT node FROM thread ORDER BY 1")]
    assert nodes == list(range(len(nodes))) and len(nodes) == 7
    assert runs.one("SELECT state FROM trial") == "complete"


@pytest.mark.slow
def test_a_forked_child_begins_with_the_open_call_path_at_no_calls(runs, native):
    runs.run(
        """
import os
def inner():
    if os.fork() == 0:
        leaf(); os._exit(0)
    os.wait()
def leaf(): pass
def outer(): inner()
outer()
""",
        "--engine",
        native,
    )
    rows = dict(
        runs.sql(
            """SELECT short_name, timer_call.calls FROM timer_call
                 JOIN thread ON thread.id = thread_id JOIN timer ON timer.id = timer_id
                WHERE node = 1"""
        )
    )
    assert rows["outer"] == rows["inner"] == rows["<module>"] == 0
    assert rows["leaf"] == 1


@pytest.mark.slow
def test_a_program_that_replaces_itself_is_one_trial(runs, native):
    done = runs.run(
        """
import os, sys
def before(): pass
before()
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
def after(): pass
after(); sys.exit(4)
"""
    )
    assert done.returncode == 4
    assert runs.calls()["before"] == 2 and runs.calls()["after"] == 1
    assert runs.one("SELECT exit_code, state FROM trial") == (4, "complete")


def test_exec_of_another_program_keeps_the_profile(runs, native):
    done = runs.run("import os\ndef f(): pass\nf()\nos.execvp('echo', ['echo', 'from echo'])\n")
    assert done.stdout == "from echo\n"
    runs.taupy("doctor", "--db", str(runs.database))
    assert runs.calls()["f"] == 1
    assert runs.one("SELECT state FROM trial") == "complete"


@pytest.mark.slow
def test_all_threads_are_recorded(runs, native):
    runs.run(
        """
import threading
def work(n):
    for _ in range(n): tick()
def tick(): pass
threads = [threading.Thread(target=work, args=(n,), name=f"worker {n}") for n in (10, 20, 30)]
for t in threads: t.start()
for t in threads: t.join()
""",
        "--engine",
        native,
    )
    rows = runs.sql(
        """SELECT thread.name, timer_call.calls FROM timer_call
             JOIN timer ON timer.id = timer_id JOIN thread ON thread.id = thread_id
            WHERE short_name = 'tick' ORDER BY 2"""
    )
    assert rows == [("worker 10", 10), ("worker 20", 20), ("worker 30", 30)]


@pytest.mark.slow
def test_c_functions_with_c_calls(runs, native):
    runs.run("x = []\nfor i in range(7): x.append(len('abc'))\n", "--c-calls", "--engine", native)
    names = dict(
        runs.sql(
            """SELECT short_name, calls FROM timer_call JOIN timer ON timer.id = timer_id
                WHERE short_name IN ('list.append', 'builtins.len')"""
        )
    )
    assert names == {"list.append": 7, "builtins.len": 7}


OWN_PROFILER = """
import sys
seen = []
def note(frame, event, arg):
    seen.append((event, frame.f_code.co_name, getattr(arg, "__name__", None)))
def work():
    sys.setprofile(note)
    abs(1)
    sys.setprofile(sys.getprofile())
    sys.setprofile(None)
work()
work()
print(seen)
"""


@pytest.mark.slow
def test_a_programs_own_profiler_sees_what_it_would_see(runs):
    done = runs.run(OWN_PROFILER, "--c-calls")
    plain = subprocess.run([sys.executable, "-c", OWN_PROFILER], capture_output=True, text=True)
    assert done.stdout == plain.stdout != ""


SELECTION = """
def leaf(): pass
def middle(): leaf(); leaf()
def top():
    for _ in range(3): middle()
top()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ((), {"top": 1, "middle": 3, "leaf": 6}),
        (("--exclude", "middle"), {"top": 1, "leaf": 6}),
        (("--exclude", "name:m*e"), {"top": 1, "leaf": 6}),
        (("--exclude", "module:__main__"), {}),
        (("--include", "name:leaf"), {"leaf": 6}),
        (("--depth", "2"), {"top": 1}),
        (("--depth", "3"), {"top": 1, "middle": 3}),
        (("--max-callpaths", "2"), {"top": 1}),
    ],
)
def test_selection(runs, native, options, calls):
    if native == "python" and options[:1] in (("--depth",), ("--max-callpaths",)):
        calls = {"top": 1, "middle": 3, "leaf": 6}  # not measured: the trial says so
    done = runs.run(SELECTION, "--engine", native, *options)
    assert done.returncode == 0, done.stderr
    found = runs.calls()
    found.pop(".taupy application"), found.pop("<module>", None)
    assert found == calls


@pytest.mark.slow
def test_an_excluded_routines_callees_hang_under_its_caller(runs, native):
    runs.run(SELECTION, "--engine", native, "--exclude", "middle")
    parent = runs.one(
        """SELECT above.short_name FROM call JOIN callpath ON callpath.id = callpath_id
             JOIN timer ON timer.id = callpath.timer_id
             JOIN callpath AS up ON up.id = callpath.parent_id
             JOIN timer AS above ON above.id = up.timer_id WHERE timer.short_name = 'leaf'"""
    )
    assert parent == "top"


@pytest.mark.slow
def test_throttling_says_what_it_throttled(runs, native):
    done = runs.run(
        "def tiny(): pass\ndef run():\n  for _ in range(1000): tiny()\nrun()\n",
        "--engine",
        native,
        "--throttle",
        "--throttle-calls",
        "100",
        "--throttle-usec",
        "1000",
    )
    assert "throttled" in done.stderr and "tiny" in done.stderr
    assert runs.calls()["tiny"] == 101
    groups = {
        row[0]
        for row in runs.sql(
            """SELECT timer_group.name FROM timer_group JOIN timer ON timer.id = timer_id
                WHERE short_name = 'tiny'"""
        )
    }
    assert groups == {"PYTHON", "THROTTLED"}


@pytest.mark.slow
def test_compensation_is_kept_beside_the_raw_time(runs, native):
    runs.run(
        "def tiny(): pass\ndef run():\n  for _ in range(20000): tiny()\nrun()\n", "--compensate"
    )
    rows = dict(
        runs.sql(
            """SELECT metric.name, exclusive FROM timer_value JOIN metric ON metric.id = metric_id
                 JOIN timer ON timer.id = timer_id WHERE short_name = 'run'"""
        )
    )
    assert 0 <= rows["time_compensated"] <= rows["time"]
    # 0 where other processes disturbed the rounds that are measured without the engine.
    assert float(runs.metadata("taupy.overhead.call_ns")) >= 0


@pytest.mark.slow
def test_a_locked_or_foreign_database_never_costs_the_profile(runs, native):
    runs.database.write_text("this is somebody's text\n" * 100)
    before = runs.database.read_bytes()
    done = runs.run("def f(): pass\nf()\nprint('fine')\nraise SystemExit(3)\n")
    assert (done.returncode, done.stdout) == (3, "fine\n")
    assert runs.database.read_bytes() == before
    (rescue,) = runs.folder.glob("*.taupy-run")
    assert f"taupy import {rescue}" in done.stderr
    runs.database.unlink()
    loaded = runs.taupy("import", "--db", str(runs.database), str(rescue))
    assert loaded.returncode == 0, loaded.stderr
    assert runs.calls()["f"] == 1
    assert runs.one("SELECT exit_code FROM trial") == 3
    again = runs.taupy("import", "--db", str(runs.database), str(rescue))
    assert again.returncode == 0
    assert runs.one("SELECT count(*) FROM trial") == 1


@pytest.mark.slow
def test_kept_runs_of_one_name_become_trials_of_two(runs, native):
    directory = runs.folder / "is.db"
    directory.mkdir()
    options = ("--engine", native, "--trial", "best")
    for _ in range(2):
        runs.taupy("run", "--db", str(directory), *options, "-c", "def f(): pass\nf()")
    one, other = sorted(runs.folder.glob("*.taupy-run"))
    other = other.rename(runs.folder / "renamed")  # known by what is in it
    loaded = runs.taupy("import", str(one), str(other))
    assert loaded.returncode == 0 and "\\n" not in loaded.stderr
    names = "SELECT trial.name FROM trial ORDER BY id"
    assert runs.sql(names) == [("best",), ("best (2)",)]
    assert runs.taupy("import", str(one), str(other)).returncode == 0
    assert runs.sql(names) == [("best",), ("best (2)",)]


@pytest.mark.slow
def test_a_run_folder_is_imported_wherever_it_lies(runs, native):
    directory = runs.folder / "is.db"
    directory.mkdir()
    runs.taupy("run", "--db", str(directory), "-c", "def f(): pass\nf()")
    (kept,) = runs.folder.glob("*.taupy-run")
    copy, left_over = runs.folder / "copy", runs.state / "run-left-1"
    for folder in (copy, left_over):
        with zipfile.ZipFile(kept) as archive:
            archive.extractall(folder)
    names = ("--app", "A", "--experiment", "E", "--name", "N")
    assert runs.taupy("import", "copy", *names).returncode == 0
    assert runs.sql("SELECT application, experiment, trial FROM trials") == [("A", "E", "N")]
    assert (copy / "run").exists()
    assert runs.taupy("import", str(left_over), "--db", "other.db").returncode == 0
    assert not left_over.exists()


def test_a_file_that_is_no_rescue_file_is_refused_in_one_line(runs):
    for name, data in {"a.taupy-run": b"no zip", "b.taupy-run": b""}.items():
        (runs.folder / name).write_bytes(data)
        done = runs.taupy("import", "--db", str(runs.database), name)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("taupy: ")
    with zipfile.ZipFile(runs.folder / "c.taupy-run", "w") as archive:
        archive.writestr("run", b"\xff nonsense")
        archive.writestr("../1-1.part", b"TAUPYPRT")
    done = runs.taupy("import", "--db", str(runs.database), "c.taupy-run")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert not runs.database.exists()


@pytest.mark.slow
def test_ranks_of_one_job_become_one_trial(runs, native):
    (runs.folder / "prog.py").write_text("def f(): pass\nf()\n")
    processes = []
    for rank in range(3):
        environment = {
            **runs.environ(),
            "RANK": str(rank),
            "WORLD_SIZE": "3",
            "LOCAL_WORLD_SIZE": "3",
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "29500",
        }
        command = [sys.executable, "-m", "taupy", "run", "--db", str(runs.database), "prog.py"]
        processes.append(
            subprocess.Popen(command, cwd=runs.folder, env=environment, stderr=subprocess.PIPE)
        )
    for process in processes:
        process.communicate(timeout=240)
    assert runs.sql("SELECT node FROM thread ORDER BY node") == [(0,), (1,), (2,)]
    assert runs.one("SELECT count(*) FROM trial") == 1


LATE_CHILD = """
import os, time
def late():
    open("begun.new", "w").write(str(os.getpid()))
    os.rename("begun.new", "begun")
    while not os.path.exists("may_end"):
        time.sleep(0.01)
late()
"""


def goes_on(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.slow
def test_child_processes_that_outlive_the_program_are_added_later(runs, native):
    done = runs.run(
        f"""
import os, subprocess, sys, time
nowhere = subprocess.DEVNULL
subprocess.Popen([sys.executable, "-c", {LATE_CHILD!r}], stdout=nowhere, stderr=nowhere)
while not os.path.exists("begun"):
    time.sleep(0.01)
"""
    )
    assert "still run" in done.stderr
    assert runs.one("SELECT state FROM trial") == "incomplete"
    (runs.folder / "may_end").touch()
    while goes_on((runs.folder / "begun").read_text()):
        time.sleep(0.01)
    runs.taupy("doctor", "--db", str(runs.database))
    assert runs.one("SELECT count(*) FROM timer WHERE short_name = 'late'") == 1
    assert runs.one("SELECT state FROM trial") == "complete"
    assert runs.one("SELECT count(*) FROM trial") == 1


@pytest.mark.slow
def test_metadata_describes_machine_program_and_measurement(runs, native):
    runs.run("pass", "--meta", "batch_size=32", arguments=("--epochs", "3"))
    assert runs.metadata("batch_size") == "32"
    assert "prog.py --epochs 3" in runs.metadata("Command Line")
    assert runs.metadata("CWD") == str(runs.folder)
    assert runs.metadata("taupy.engine") == "native"
    assert int(runs.metadata("Peak Resident Memory (KiB)")) > 1000


@pytest.mark.slow
def test_targets_of_every_kind(runs, native):
    (runs.folder / "package").mkdir()
    (runs.folder / "package" / "__main__.py").write_text("def main(): print('main')\nmain()\n")
    (runs.folder / "package" / "__init__.py").write_text("")
    with zipfile.ZipFile(runs.folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", "def zipped(): print('zip')\nzipped()\n")
    database = ("--db", str(runs.database))
    for target, more, out in (
        (("-m", "package"), {}, "main\n"),
        (("package",), {}, "main\n"),
        (("app.zip",), {}, "zip\n"),
        (("-c", "print('code')"), {}, "code\n"),
        (("-",), {"input": "print('stdin')"}, "stdin\n"),
        (("--", "package"), {}, "main\n"),
    ):
        done = runs.taupy("run", *database, *target, **more)
        assert (done.returncode, done.stdout) == (0, out), done.stderr
    names = [row[0] for row in runs.sql("SELECT name FROM application ORDER BY name")]
    assert names == ["-c", "app", "package", "stdin"]


@pytest.mark.slow
def test_an_application_is_the_program_that_is_counted(runs, native):
    (runs.folder / "npx.py").write_text("import sys; print(sys.argv[1:])")
    (runs.folder / "module.py").write_text("import sys; print(sys.argv[1:])")
    for target, name in (
        (("-m", "taupy.count", "npx.py", "-m"), "npx"),
        (("-mtaupy.count", str(runs.folder / "npx.py"), "-m"), "npx"),
        (("-m", "module", "-m"), "module"),
        (("--app", "mine", "-m", "taupy.count", "npx.py", "-m"), "mine"),
    ):
        done = runs.taupy("run", "--db", str(runs.database), *target)
        assert (done.returncode, done.stdout) == (0, "['-m']\n"), done.stderr
        query = """SELECT application.name FROM trial
                     JOIN experiment ON experiment.id = experiment_id
                     JOIN application ON application.id = application_id
                    ORDER BY trial.id DESC LIMIT 1"""
        assert runs.one(query) == name


@pytest.mark.slow
def test_names_of_people_never_reach_the_terminal_raw(runs, native):
    names = ("--app", "a\x1b[2Jb", "--experiment", "x\ry", "--trial", "c\nd\x07")
    done = runs.run("pass", *names)
    assert done.returncode == 0
    trial, following = done.stderr.splitlines()
    assert trial.isprintable() and following.isprintable()
    assert names_next(following, "taupy report 1"), done.stderr
    assert "a\\x1b[2Jb" in done.stderr and "c\\nd\\x07" in done.stderr
    done = runs.run("pass", *names, "--repeat", "2")
    assert all(line.isprintable() for line in done.stderr.split("\n")), done.stderr


@pytest.mark.slow
def test_options_stop_at_the_script(runs, native):
    done = runs.run("import sys; print(sys.argv[1:])", arguments=("--db", "x", "-m", "--help"))
    assert done.stdout == "['--db', 'x', '-m', '--help']\n"


@pytest.mark.slow
def test_settings_of_the_project_and_the_environment(runs, native):
    (runs.folder / "pyproject.toml").write_text('[tool.taupy]\ndb = "here.db"\nexperiment = "e"\n')
    (runs.folder / "prog.py").write_text("pass")
    assert runs.taupy("run", "prog.py").returncode == 0
    with sqlite3.connect(runs.folder / "here.db") as connection:
        assert connection.execute("SELECT name FROM experiment").fetchall() == [("e",)]
    runs.environment["TAUPY_DB"] = "there.db"
    assert runs.taupy("run", "prog.py").returncode == 0
    assert (runs.folder / "there.db").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--meta", "x", "prog.py"), "KEY=VALUE"),
        (("run", "-m"), "-m needs a module"),
        (("run", "--depth", "0", "prog.py"), "--depth"),
        (("pprof",), "taupy.db"),
        (("import", "none.taupy-run"), "none.taupy-run"),
    ],
)
def test_bad_input_gets_one_line(runs, arguments, words):
    (runs.folder / "prog.py").write_text("pass")
    done = runs.taupy(*arguments)
    assert done.returncode in (1, 2)
    assert words in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.slow
def test_quiet_says_nothing(runs, native):
    assert runs.run("pass", "--quiet").stderr == ""


@pytest.mark.slow
def test_nothing_is_left_in_the_programs_sight(runs, engine):
    source = """
import os, sys, json
print(json.dumps([
    sorted(os.environ), sorted(n for n in sys.modules if "taupy" in n),
    sorted(os.listdir("/proc/self/fd")), sys.gettrace() is None, sys.flags, sys.path]))
"""
    assert runs.run(source, "--engine", engine).stdout == runs.plain(source).stdout


@pytest.mark.slow
@pytest.mark.parametrize("own", [None, "print('own')", "raise ValueError('own')"])
def test_without_the_start_up_hook_the_program_is_reached_through_the_path(runs, tmp_path, own):
    import taupy

    if own is not None:
        (tmp_path / "sitecustomize.py").write_text(own)

    root = os.path.dirname(os.path.dirname(os.path.abspath(taupy.__file__)))
    import venv

    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    (tmp_path / "prog.py").write_text(
        "import os, sys\ndef f(): pass\nf()\n"
        "print(os.environ.get('PYTHONPATH'), 'sitecustomize' in sys.modules)\n"
    )
    import sqlite_utils

    libraries = os.path.dirname(os.path.dirname(sqlite_utils.__file__))
    environment = {**runs.environ(), "PYTHONPATH": f"{root}:{libraries}:{tmp_path}"}
    plain = subprocess.run(
        [python, "prog.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    done = subprocess.run(
        [python, "-m", "taupy", "run", "--db", str(runs.database), "prog.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (plain.stdout if own != "print('own')" else "own\n" + plain.stdout)
    assert "KeyError" not in done.stderr
    assert done.stderr.partition("taupy:")[0].startswith(plain.stderr * (2 if own else 1))
    assert runs.calls()["f"] == 1


@pytest.mark.slow
def test_a_late_child_that_leaves_nothing_completes_the_trial(runs, native):
    runs.run("def f(): pass\nf()\n")
    uuid = runs.one("SELECT uuid FROM trial")
    with sqlite3.connect(runs.database) as connection:
        connection.execute("UPDATE trial SET state = 'incomplete'")
        connection.execute(
            "INSERT INTO metadata (trial_id, name, value) VALUES (1, 'taupy.health.running', 'x')"
        )
    runs.taupy("run", "--db", str(runs.database), "-c", "import os; os.kill(os.getpid(), 9)")
    (folder,) = runs.state.iterdir()
    from taupy.instrument.runfolder import read_settings, write_settings
    from taupy.state import values
    from taupy.state.folder import open_run

    with open_run(str(folder)) as opened:
        settings = read_settings(opened)
        settings.uuid = uuid
        write_settings(opened, settings)
    (folder / "nodes").write_bytes(values.dumps({}))
    for part in folder.glob("*.part"):
        part.unlink()
    runs.taupy("doctor", "--db", str(runs.database))
    assert runs.sql("SELECT state FROM trial") == [("complete",)]
    assert runs.metadata("taupy.health.running") is None
    assert list(runs.state.iterdir()) == []


@pytest.mark.parametrize("kind", ["null device", "empty file", "closed pipe"])
def test_neither_script_nor_input_is_an_error_that_says_what_is_wanted(runs, kind):
    empty = runs.folder / "empty"
    empty.touch()
    with open(empty) as file:
        how = {
            "null device": {"stdin": subprocess.DEVNULL},
            "empty file": {"stdin": file},
            "closed pipe": {"input": ""},
        }[kind]
        result = runs.taupy("run", **how)
    assert result.returncode == 2
    assert "nothing to run: name a script, -m MODULE, -c CODE, or - for standard input" in (
        result.stderr
    )
