"""One file has one name: in every spelling, and on both sides of a comparison."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys

import pytest

SMALL = """\
import sys

import beside

def leaf(n):
    return sum(i * i for i in range(n))

def main(n):
    return [leaf(n) for _ in range(5)] + [beside.helper(n)]

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""
BESIDE = "def helper(n):\n    return n\n"


def written(folder, script="small.py"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / script).write_text(SMALL)
    (folder / "beside.py").write_text(BESIDE)


def rows(runs, *arguments):
    done = runs.taupy("compare", "--db", str(runs.database), *arguments, "--json")
    assert done.returncode == 0, done.stderr
    views = {view["title"].split(":")[0]: view for view in json.loads(done.stdout)}
    return {row["timer"]: row for row in views["ROUTINES"]["rows"]}, json.loads(done.stdout)


def named(runs, trial):
    return set(
        runs.sql(
            """SELECT timer.name FROM timer JOIN trial_timer ON trial_timer.timer_id = timer.id
                WHERE trial_timer.trial_id = ? AND timer.file IS NOT NULL""",
            trial,
        )
    )


def ran(runs, target, cwd="."):
    """Run in another folder than the database's."""
    command = [sys.executable, "-m", "taupy", "run", "--db", str(runs.database), *target]
    done = subprocess.run(
        command, cwd=runs.folder / cwd, env=runs.environ(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_spelling_of_a_script_gives_the_same_names(runs, native):
    written(runs.folder / "code")
    (runs.folder / "code" / "sub").mkdir()
    (runs.folder / "link").symlink_to(runs.folder / "code")
    script = str(runs.folder / "code" / "small.py")
    spellings = [("small.py", "code"), ("./small.py", "code"), ("../small.py", "code/sub")]
    spellings += [(script, "."), ("link/sub/..//small.py", ".")]
    for target, cwd in spellings:
        ran(runs, [target, "20"], cwd)
    found = [named(runs, trial) for trial in range(1, len(spellings) + 1)]
    assert ("leaf [{small.py}{5}]",) in found[0] and ("helper [{beside.py}{1}]",) in found[0]
    assert all(names == found[0] for names in found)


@pytest.mark.slow
def test_a_script_by_a_link_finds_the_modules_beside_the_real_one(runs, native):
    written(runs.folder / "src")
    (runs.folder / "tool").symlink_to("src/small.py")
    ran(runs, ["tool", "20"])
    assert {("helper [{beside.py}{1}]",), ("leaf [{tool}{5}]",)} <= named(runs, 1)
    ran(runs, ["src/small.py", "20"])
    found, _ = rows(runs, "1", "2", "--value", "calls")
    assert {row["in"] for row in found.values()} == {"all"}


@pytest.mark.slow
def test_old_spellings_in_a_database_are_compared_under_the_one_name(runs, native):
    written(runs.folder)
    for _ in range(2):
        ran(runs, ["small.py", "20"])
    with sqlite3.connect(runs.database) as connection:
        # As earlier versions wrote them: another id for another name.
        for (id,) in connection.execute("SELECT id FROM timer WHERE file = 'small.py'").fetchall():
            connection.execute(
                "INSERT INTO timer SELECT id + 1, replace(name, '{small', '{./small'), short_name,"
                " './' || file, line FROM timer WHERE id = ?", (id,)
            )  # fmt: skip
            connection.execute(
                "INSERT INTO timer_group SELECT id + 1, 'PYTHON' FROM timer WHERE id = ?", (id,)
            )
            for table in ("trial_timer", "timer_call", "timer_value"):
                connection.execute(
                    f"UPDATE {table} SET timer_id = timer_id + 1 WHERE timer_id = ? "
                    "AND trial_id = 2",
                    (id,),
                )
    found, _ = rows(runs, "1", "2", "--value", "calls")
    assert found["leaf [{small.py}{5}]"]["match"] == "same"
    assert (found["leaf [{small.py}{5}]"]["a_call"], found["leaf [{small.py}{5}]"]["b_call"]) == (
        5,
        5,
    )
    assert not any("./" in name for name in found)


@pytest.mark.slow
def test_two_scripts_are_paired_by_their_routines(runs, native):
    written(runs.folder / "v1", "old.py")
    written(runs.folder / "v2" / "deeper", "new.py")
    (runs.folder / "v2" / "deeper" / "new.py").write_text("# moved\n" + SMALL)
    ran(runs, ["v1/old.py", "20"])
    ran(runs, ["v2/deeper/new.py", "20"])
    found, views = rows(runs, "1", "2", "--value", "calls")
    leaf = found["leaf [{old.py}{5}]"]
    assert (leaf["a_call"], leaf["b_call"], leaf["match"]) == (5, 5, "moved")
    assert {row["in"] for row in found.values()} == {"all"}
    assert not any("names match" in note for view in views for note in view["notes"])


@pytest.mark.slow
def test_files_that_moved_with_the_script_are_paired_with_it(runs, native):
    for version in ("v1", "v2"):
        folder = runs.folder / version
        written(folder / "scripts")
        (folder / "lib").mkdir()
        (folder / "lib" / "far.py").write_text("def far():\n    pass\n")
        script = folder / "scripts" / "small.py"
        script.write_text(
            "import os, sys\nsys.path.append(os.path.dirname(__file__) + '/../lib')\n"
            "import far\nfar.far()\n" + SMALL
        )
        ran(runs, [f"{version}/scripts/small.py", "20"])
    assert (f"far [{{{runs.folder}/v1/lib/far.py}}{{1}}]",) in named(runs, 1)
    found, _ = rows(runs, "1", "2", "--value", "calls")
    assert {row["in"] for row in found.values()} == {"all"}


@pytest.mark.slow
def test_a_module_run_by_name_is_paired_with_its_script(runs, native):
    written(runs.folder / "pkg")
    text = SMALL.replace("import beside", "from pkg import beside")
    (runs.folder / "pkg" / "small.py").write_text(text)
    runs.environment["PYTHONPATH"] = str(runs.folder)
    ran(runs, ["-m", "pkg.small", "20"])
    ran(runs, ["pkg/small.py", "20"])
    found, _ = rows(runs, "1", "2", "--value", "calls", "--filter", "/leaf|helper|main/")
    own = {name: row["in"] for name, row in found.items() if "small.py" in name}
    assert set(own.values()) == {"all"} and len(own) == 3
    assert found["helper [{pkg/beside.py}{1}]"]["in"] == "all"


OTHER = """\
def {0}(n):
    return sum(i * i for i in range(n))
def {0}_main(n):
    return [{0}(n) for _ in range(200)]
{0}_main(1000)
"""


@pytest.mark.slow
def test_names_that_hardly_match_are_said_before_the_rows(runs, native):
    for name in ("one", "two"):
        (runs.folder / f"{name}.py").write_text(OTHER.format(name))
        ran(runs, ["--meta", f"way={name}", "--app", "app", f"{name}.py"])
    done = runs.taupy("compare", "--db", str(runs.database), "1", "2")
    # What both have besides, such as imports, takes a while on a busy machine.
    assert re.match(r"note: the names match in \d+ % of the time of A and \d+ %", done.stdout)
    pivot = ("pivot", "--db", str(runs.database), "--rows", "routine", "--columns", "meta.way")
    done = runs.taupy(*pivot)
    assert re.match(r"note: the names match in \d+ % of the time of one and \d+ %", done.stdout)
    done = runs.taupy("sweep", "--db", str(runs.database), "--by", "way", "1", "2")
    assert re.match(r"note: the names match in \d+ % of the time of way=one", done.stdout)
    done = runs.taupy(
        "compare", "--db", str(runs.database), "1", "2", "--fail-on", "time > +500%",
        "--allow", "all",
    )  # fmt: skip
    assert re.match(r"note: the names match in \d+ % of the time of A and \d+ %", done.stdout)


def test_a_sweep_follows_routines_from_one_script_to_the_next(runs, native):
    for name in ("one", "two"):
        (runs.folder / f"{name}.py").write_text(OTHER.format("work"))
        ran(runs, ["--meta", f"way={name}", "--app", "app", f"{name}.py"])
    done = runs.taupy("sweep", "--db", str(runs.database), "--by", "way", "1", "2", "--json")
    views = {view["title"].split()[0]: view for view in json.loads(done.stdout)}
    values = {
        row["value"] for row in views["ROUTINES,"]["rows"] if row["routine"].startswith("work [")
    }
    assert values == {"one", "two"}
    assert not any("names match" in note for view in views.values() for note in view["notes"])


NOTEBOOK = """\
import os, sys
def run(text, number):
    exec(compile(text, f"/tmp/ipykernel_{os.getpid()}/{number}.py", "exec"), globals())
run("def spin(n):\\n    return sum(range(n))", 123)
run(*eval(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_cell_has_the_same_name_in_every_kernel_and_pairs_when_it_is_edited(runs, native):
    (runs.folder / "kernel.py").write_text(NOTEBOOK)
    ran(runs, ["kernel.py", "('def g():\\n    spin(5)\\ng()', 7)"])
    ran(runs, ["kernel.py", "('def g():\\n    spin(6)\\ng()', 8)"])
    found, _ = rows(runs, "1", "2", "--value", "calls")
    spin = found["spin [{cell 123}{1}]"]
    assert (spin["match"], spin["a_call"], spin["b_call"]) == ("same", 1, 1)
    g = found["g [{cell 7}{1}]"]
    assert (g["match"], g["a_call"], g["b_call"]) == ("moved", 1, 1)


@pytest.mark.slow
def test_code_compiled_elsewhere_is_not_taken_for_a_file_of_this_folder(runs, native):
    written(runs.folder / "deeper")
    compiled = "exec(compile('def f(): pass\\nf()', 'pkg/core/_fast.py', 'exec'))\n"
    (runs.folder / "deeper" / "small.py").write_text(compiled)
    ran(runs, ["deeper/small.py"])
    ran(runs, ["small.py"], "deeper")
    assert ("f [{pkg/core/_fast.py}{1}]",) in named(runs, 1) & named(runs, 2)
    assert runs.sql("SELECT DISTINCT path FROM trial_timer WHERE path LIKE '%_fast.py'") == [
        ("pkg/core/_fast.py",)
    ]


THREADS = """\
import os, threading, time

def work(name):
    threading.current_thread().name = name

def forks():
    if os.fork() == 0:
        work("child")
        os._exit(0)
    os.wait()

late = [threading.Thread(target=work, args=(f"late-{n}",)) for n in range(2)]
outside = threading.Thread(target=time.sleep, args=(0.1,))
held = threading.Event()
daemon = threading.Thread(target=held.wait, daemon=True)
for thread in (*late, outside, daemon):
    thread.start()
outside.name, daemon.name = "renamed outside", "renamed daemon"
for thread in (*late, outside):
    thread.join()
threading.main_thread().name = "renamed main"
forking = threading.Thread(target=forks, name="forking")
forking.start()
forking.join()
"""


@pytest.mark.slow
def test_a_thread_has_the_last_name_that_it_was_given(runs, native):
    assert runs.run(THREADS, "--engine", native).returncode == 0
    named = runs.sql("SELECT node, thread, name FROM thread ORDER BY node, thread")
    assert named[:5] == [
        (0, 0, "renamed main"),
        (0, 1, "late-0"),
        (0, 2, "late-1"),
        (0, 3, "renamed outside"),
        (0, 4, "renamed daemon"),
    ]
    assert named[5] == (0, 5, "forking")
    first = dict(runs.sql("SELECT name, value FROM metadata WHERE name LIKE 'taupy.thread.%'"))
    assert first["taupy.thread.0.first_name"] == "MainThread"
    assert first["taupy.thread.3.first_name"] == "Thread-3 (sleep)"
    assert "taupy.thread.5.first_name" not in first


def test_names_are_read_though_the_threads_of_the_library_are_not_recorded(runs, native):
    assert runs.run(THREADS, "--include", "work").returncode == 0
    named = [name for (name,) in runs.sql("SELECT name FROM thread WHERE node = 0")]
    assert {"late-0", "late-1"} <= {*named}
