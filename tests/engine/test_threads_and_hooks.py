"""Threads, processes, and programs that use the interpreter's hooks themselves."""

from __future__ import annotations

import sys

import pytest


def test_every_thread_has_its_own_tree_with_its_own_counts(runner, native):
    trial = runner.run(
        """
import threading
def work(n):
    for _ in range(n): leaf()
def leaf(): pass
threads = [threading.Thread(target=work, args=(n,), name=f"w{n}") for n in (3, 5)]
for t in threads: t.start()
for t in threads: t.join()
work(2)
""",
        native,
    )
    leaves = {path.thread_name: path for path in trial.paths() if path.names[-1] == "leaf"}
    assert {name: path.calls for name, path in leaves.items()} == {
        "MainThread": 2,
        "w3": 3,
        "w5": 5,
    }
    assert leaves["w3"].names[1:4] == ("Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run")
    roots = [path for path in trial.paths() if len(path.names) == 1]
    assert [path.thread for path in roots] == [0, 1, 2]
    assert all(path.calls == 1 for path in roots)


def test_a_hundred_short_threads_are_a_hundred_threads(runner, native):
    trial = runner.run(
        """
import threading
def work(): pass
for _ in range(100):
    t = threading.Thread(target=work); t.start(); t.join()
""",
        native,
    )
    assert len({path.thread for path in trial.paths() if path.names[-1] == "work"}) == 100
    assert trial.calls()["work"] == 100


@pytest.mark.slow
def test_a_daemon_thread_still_at_work_at_the_end_is_kept(runner, native):
    trial = runner.run(
        """
import threading, time
started = threading.Event()
def work():
    leaf(); started.set(); time.sleep(60)
def leaf(): pass
threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.05)
""",
        native,
    )
    assert trial.calls("prog.py") == {"<module>": 1, "work": 1, "leaf": 1}
    assert trial.under("Thread.run", "work").inclusive >= 30_000_000


@pytest.mark.slow
def test_threads_past_the_threading_module_are_measured_or_missed_aloud(runner, native):
    trial = runner.run(
        """
import _thread
lock = _thread.allocate_lock()
lock.acquire()
def work():
    lock.release()
_thread.start_new_thread(work, ())
lock.acquire()
""",
        native,
    )
    if "work" in trial.calls():
        assert trial.calls()["work"] == 1
    else:
        assert trial.metadata()["taupy.health.threads"].startswith("1 threads")


@pytest.mark.slow
def test_threads_under_a_programs_own_hook_are_measured_or_missed_aloud(runner, native):
    trial = runner.run(
        """
import threading
def before(): pass
def meanwhile(): pass
def after(): pass
def start(target):
    thread = threading.Thread(target=target)
    thread.start(); thread.join()
start(before)
threading.setprofile(lambda *event: None)
start(meanwhile)
threading.setprofile(None)
start(after)
""",
        native,
    )
    calls = trial.calls()
    assert (calls["before"], calls["after"]) == (1, 1)
    if "meanwhile" not in calls:
        assert "taupy.health.threading_hook" in trial.metadata()


@pytest.mark.slow
def test_a_programs_own_profile_function_works_and_is_reported(runner, native):
    trial = runner.run(
        """
import sys
def f(): pass
seen = []
def own(frame, event, argument):
    if event == "call": seen.append(frame.f_code.co_name)
f()
old = sys.getprofile()
sys.setprofile(own)
f(); f()
sys.setprofile(old)
f()
print(seen)
def last(): f()
last()
""",
        native,
    )
    assert trial.stdout == "['f', 'f']\n"
    assert trial.calls()["f"] == 5
    assert trial.under("<module>", "last", "f").calls == 1


@pytest.mark.slow
def test_a_programs_own_trace_function_works_and_nothing_is_lost(runner, native):
    trial = runner.run(
        """
import sys
def f():
    x = 1
lines = []
def trace(frame, event, argument):
    lines.append(event)
    return trace
sys.settrace(trace)
f(); f()
sys.settrace(None)
print(lines.count("line"))
""",
        native,
    )
    assert trial.stdout == "2\n"
    assert trial.calls("prog.py")["f"] == 2


@pytest.mark.slow
def test_cprofile_inside_the_program_sees_what_it_should(runner, native):
    trial = runner.run(
        """
import cProfile, pstats, io
def f(): pass
def work():
    for _ in range(4): f()
profile = cProfile.Profile()
profile.runcall(work)
stats = pstats.Stats(profile, stream=io.StringIO())
print([row[0] for name, row in stats.stats.items() if name[2] == "f"])
""",
        native,
    )
    assert trial.stdout == "[4]\n"
    if "taupy.health.profile_hook" not in trial.metadata():
        assert trial.calls("prog.py")["f"] == 4


@pytest.mark.slow
def test_recursion_to_the_limit_loses_nothing_but_the_last_steps(runner, native):
    trial = runner.run(
        """
import gc, sys
sys.setrecursionlimit(600)
def down(n):
    global deepest
    deepest = n
    down(n + 1)
def after(): pass
for _ in range(3):
    try:
        down(1)
    except RecursionError:
        pass
    gc.collect()
    after()
print(deepest)
""",
        native,
    )
    deepest = int(trial.stdout)
    assert trial.calls()["after"] == 3
    assert 585 <= deepest <= 599
    # A frame that the interpreter refuses runs nothing of the routine: it is no call.
    assert trial.calls()["down"] == 3 * deepest
    assert trial.under("<module>", "after").calls == 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 does not tell of handled errors")
def test_calls_after_the_recursion_limit_are_counted_at_once(runner, native):
    trial = runner.run(
        """
import gc, sys
gc.disable()
sys.setrecursionlimit(90)
def down(): down()
def after(): pass
def catch():
    try: down()
    except RecursionError: pass
    after()
for _ in range(3): catch()
""",
        native,
    )
    calls = trial.calls()
    assert (calls["catch"], calls["after"]) == (3, 3)


@pytest.mark.slow
def test_a_programs_recursion_error_has_no_frames_of_ours(runner, native):
    trial = runner.run(
        "import traceback\ndef down(): down()\n"
        "try: down()\nexcept RecursionError: print(traceback.format_exc())\n",
        native,
    )
    assert "RecursionError: maximum recursion depth exceeded" in trial.stdout
    assert "taupy" not in trial.stdout


@pytest.mark.slow
def test_a_signal_handler_that_raises_leaves_us_at_work(runner, native):
    trial = runner.run(
        """
import gc, signal
class Stop(TimeoutError): pass
def handler(number, frame): raise Stop
signal.signal(signal.SIGALRM, handler)
def leaf(): pass
stopped = 0
for _ in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while True: leaf()
    except Stop:
        stopped += 1
    gc.collect()
def after(): pass
after()
print(stopped)
""",
        native,
    )
    assert trial.stdout == "20\n"
    assert trial.under("<module>", "after").calls == 1


@pytest.mark.slow
def test_greenlets_keep_their_call_paths_or_say_that_they_do_not(runner, native):
    pytest.importorskip("greenlet")
    trial = runner.run(
        """
from greenlet import greenlet
def left():
    for _ in range(3):
        step_left()
        right_green.switch()
def right():
    for _ in range(3):
        step_right()
        left_green.switch()
def step_left(): pass
def step_right(): pass
left_green, right_green = greenlet(left), greenlet(right)
left_green.switch()
def after(): pass
after()
""",
        native,
    )
    calls = trial.calls("prog.py")
    assert calls["step_left"] == calls["step_right"] == 3
    paths = {path.names[-2:] for path in trial.paths()}
    assert "taupy.health.greenlets" in trial.metadata() or ("left", "step_left") in paths


@pytest.mark.slow
def test_a_forked_child_has_its_own_counts_under_the_open_path(runner, native):
    trial = runner.run(
        """
import os
def work(): pass
def both():
    work()
    child = os.fork()
    if child == 0:
        work(); work()
        os._exit(0)
    os.waitpid(child, 0)
    work()
both()
""",
        native,
    )
    work = {path.node: path for path in trial.paths() if path.names[-1] == "work"}
    assert {node: path.calls for node, path in work.items()} == {0: 2, 1: 2}
    assert work[1].names == work[0].names
    both = {path.node: path.calls for path in trial.paths() if path.names[-1] == "both"}
    assert both == {0: 1, 1: 0}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["os._exit(3)", "sys.exit(3)", "raise SystemExit(3)"])
def test_the_profile_survives_every_way_out(runner, native, way):
    trial = runner.run(
        f"import os, sys\ndef f(): pass\nf()\ndef leave(): {way}\nleave()\n", native, check=False
    )
    assert trial.calls("prog.py") == {"<module>": 1, "f": 1, "leave": 1}


@pytest.mark.slow
def test_what_runs_at_exit_is_measured(runner, native):
    trial = runner.run(
        "import atexit\ndef late(): pass\natexit.register(late)\natexit.register(late)\n", native
    )
    assert trial.calls("prog.py") == {"<module>": 1, "late": 2}
    assert {path.names[:-1] for path in trial.paths() if path.names[-1] == "late"} == {
        (".taupy application", "exit")
    }


@pytest.mark.slow
def test_a_dash_m_program_begins_with_runpy(runner, native):
    (runner.folder / "mod.py").write_text("def f(): pass\nf()\n")
    import subprocess
    import sys

    database = runner.folder / "m.db"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "taupy",
            "run",
            "--engine",
            native,
            "--db",
            str(database),
            "-m",
            "mod",
        ],
        cwd=runner.folder,
        env=runner.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    from tests.engine.conftest import Trial

    trial = Trial(database)
    names = next(path.names for path in trial.paths() if path.names[-1] == "f")
    assert names == (
        ".taupy application",
        "_run_module_as_main",
        "_run_code",
        "<module>",
        "f",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("raise SystemExit(7)", 7),
        ("try: raise SystemExit('words')\nfinally: pass", 1),
        ("try: sys.exit(3)\nfinally: pass", 3),
        ("try: sys.exit()\nfinally: pass", 0),
        ("try: sys.exit(5)\nexcept SystemExit: pass", 0),
        ("class Own(SystemExit): pass\nraise Own(260)", 4),
        ("1 / 0", 1),
        ("import threading; threading.Thread(target=lambda: 1 / 0).start()", 0),
    ],
)
def test_the_trial_knows_the_exit_code(runner, native, ending, code):
    trial = runner.run(f"import sys\ndef f(): pass\nf()\n{ending}\n", native, check=False)
    assert trial.sql("SELECT exit_code FROM trial") == [(code,)]


@pytest.mark.slow
def test_a_plain_exit_is_known_or_reported_as_unknown(runner, native):
    trial = runner.run("import sys\ndef main(): return 3\nsys.exit(main())\n", native, check=False)
    assert trial.sql("SELECT exit_code FROM trial")[0][0] in (3, None)
    assert trial.sql("SELECT state FROM trial") == [("complete",)]
