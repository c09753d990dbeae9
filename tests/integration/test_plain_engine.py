"""What the plain-Python engine says of its own limits."""

import time


def test_a_trial_of_the_plain_engine_says_which_counts_are_lower_bounds(runs):
    done = runs.run("def f(): pass\nf()\n", "--engine", "python")
    text = runs.metadata("taupy.health.plain_engine")
    assert "lower bounds" in text
    assert f"note: {text}" in done.stderr
    assert runs.calls()["f"] == 1


def test_what_holds_for_many_processes_is_reported_once(runs):
    done = runs.run("import os\nif os.fork(): os.wait()\n", "--engine", "python")
    assert done.stderr.count("lower bounds") == 1


def test_an_end_by_the_recursion_limit_is_never_taken_for_a_success(runs):
    done = runs.run(
        "import atexit, gc\n"
        "@atexit.register\ndef at_exit(): gc.collect(); work()\n"
        "def work(): pass\ndef down(): down()\ndown()\n",
        "--engine",
        "python",
    )
    assert done.returncode == 1 and "RecursionError" in done.stderr
    assert runs.one("SELECT exit_code FROM trial") in (1, None)
    assert "lower bounds" in runs.metadata("taupy.health.plain_engine")


def test_a_child_that_was_killed_has_lower_bounds(runs):
    """The compiled engine counts in a file; here what came after the last writing is lost."""
    done = runs.run(
        "import os, signal, time\n"
        "def leaf(): pass\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    while True: leaf()\n"
        "time.sleep(0.5)\n"
        "os.kill(pid, signal.SIGKILL)\n"
        "os.wait()\n",
        "--engine",
        "python",
    )
    assert runs.one("SELECT state FROM trial") == "incomplete"
    said = runs.metadata("taupy.health.children_killed")
    assert "when the plain engine last noted it (counts are lower bounds)" in said
    assert said in done.stderr


def test_an_audit_hook_that_refuses_to_open_files_is_not_the_programs_error(runs):
    done = runs.run(
        "import sys\n"
        "refuses = False\n"
        "def hook(event, arguments):\n"
        "    if refuses and event == 'open': raise RuntimeError('refused')\n"
        "def leaf(): pass\n"
        "sys.addaudithook(hook)\n"
        "refuses = True\n"
        "for _ in range(100): leaf()\n"
        "refuses = False\n"
        "print('done')\n",
        "--engine",
        "python",
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "audit hook" in runs.metadata("taupy.health.audit")


def test_a_helper_that_ends_after_the_run_leaves_nothing(runs, engine):
    done = runs.run(
        "import multiprocessing\n"
        "def leaf(x): return x\n"
        "if __name__ == '__main__':\n"
        "    pool = multiprocessing.get_context('forkserver').Pool(2)\n"
        "    print(sum(pool.map(leaf, range(10))))\n"
        "    pool.close(); pool.join()\n",
        "--engine",
        engine,
    )
    assert done.stdout == "45\n"
    time.sleep(1)  # the fork server ends after the program
    assert [path.name for path in runs.folder.glob("taupy.db*")] == ["taupy.db"]
