"""`taupy run --repeat` and `--sweep`: real runs, one trial each."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, sys
def work(n):
    return sum(range(n))
work(int(sys.argv[1]))
print(sys.argv[1:], os.environ.get("DEPTH"), flush=True)
"""


def metadata(runs, trial):
    return dict(
        runs.sql("SELECT name, value FROM metadata WHERE trial_id = ? AND node IS NULL", trial)
    )


def trials(runs):
    return runs.sql("SELECT application, experiment, trial, exit_code FROM trials")


@pytest.mark.slow
def test_each_repeat_is_a_trial_of_one_group(runs):
    result = runs.run(PROGRAM, "--repeat", "3", arguments=("10", "{n}"))
    assert result.returncode == 0
    assert result.stdout == "['10', '{n}'] None\n" * 3
    assert trials(runs) == [("prog", "default", str(n), 0) for n in (1, 2, 3)]
    facts = [metadata(runs, trial) for trial in (1, 2, 3)]
    assert len({fact["repeat"] for fact in facts}) == 1
    assert [fact["repeat.run"] for fact in facts] == ["1 of 3", "2 of 3", "3 of 3"]
    listed = runs.taupy("trials", f"meta.repeat={facts[0]['repeat']}", "--csv").stdout
    assert len(listed.splitlines()) == 4
    assert "taupy: run 2 of 3\n" in result.stderr
    assert "3 of 3 runs done" in result.stderr


@pytest.mark.slow
def test_a_sweep_puts_values_in_their_places(runs):
    result = runs.run(
        PROGRAM,
        *("--sweep", "n=1..2", "--sweep", "env:DEPTH=a,b", "--repeat", "2", "--"),
        arguments=("{n}", "{n}x{m}"),
    )
    assert result.stdout == "".join(
        f"['{n}', '{n}x{{m}}'] {depth}\n" for n in (1, 2) for depth in "ab" for _ in range(2)
    )
    assert trials(runs)[:3] == [
        ("prog", "sweep-n-DEPTH", "n=1 DEPTH=a#1", 0),
        ("prog", "sweep-n-DEPTH", "n=1 DEPTH=a#2", 0),
        ("prog", "sweep-n-DEPTH", "n=1 DEPTH=b#1", 0),
    ]
    chosen = runs.taupy("trials", "meta.n=2", "--csv").stdout.splitlines()[1:]
    assert [line.split(",")[0] for line in chosen] == ["8", "7", "6", "5"]
    facts = [metadata(runs, trial) for trial in range(1, 9)]
    assert {fact["sweep.over"] for fact in facts} == {"n, DEPTH"}
    assert len({fact["sweep"] for fact in facts}) == 1
    assert len({fact["repeat"] for fact in facts}) == 4


@pytest.mark.slow
def test_names_and_metadata_that_are_given_are_kept(runs):
    runs.run(
        PROGRAM,
        *("--sweep", "n=1,2", "--experiment", "mine", "--trial", "t", "--meta", "who=me", "-q"),
        arguments=("{n}",),
    )
    assert [row[1:3] for row in trials(runs)] == [("mine", "t n=1"), ("mine", "t n=2")]
    assert metadata(runs, 2)["who"] == "me"
    clash = runs.run(PROGRAM, "--sweep", "n=1", "--meta", "n=5", arguments=("{n}",))
    assert clash.returncode == 2
    assert "--meta n is set by --sweep" in clash.stderr


FAILING = "import sys; n = int(sys.argv[1]); print(n, flush=True); sys.exit(n % 3 and 10 + n)"


@pytest.mark.slow
def test_a_failing_run_ends_its_repeats_and_not_the_sweep(runs):
    result = runs.run(FAILING, "--sweep", "n=3,4,5,6", "--repeat", "2", arguments=("{n}",))
    assert result.returncode == 14
    assert result.stdout.split() == ["3", "3", "4", "5", "6", "6"]
    assert "4 of 8 runs done, 2 failed (the first with exit code 14)" in result.stderr
    assert [row[3] for row in trials(runs)] == [0, 0, 14, 15, 0, 0]
    alone = runs.run(FAILING, "--repeat", "4", arguments=("1",))
    assert (alone.returncode, alone.stdout) == (11, "1\n")


@pytest.mark.slow
def test_a_run_that_is_killed_counts_as_128_and_its_signal_and_is_kept(runs):
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    result = runs.run(source, "--repeat", "2")
    assert result.returncode == 137
    assert runs.one("SELECT exit_code, state FROM trial") == (-9, "incomplete")


READING = "import sys; print(len(sys.stdin.read()), flush=True)"


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 10, 300_000])
def test_every_run_reads_the_same_pipe(runs, size):
    result = runs.run(READING, "--repeat", "3", input="x" * size)
    assert result.stdout == f"{size}\n" * 3


@pytest.mark.slow
def test_every_run_reads_the_same_file_from_where_it_stood(runs):
    (runs.folder / "in.txt").write_text("0123456789")
    (runs.folder / "prog.py").write_text(READING)
    with open(runs.folder / "in.txt") as file:
        os.lseek(file.fileno(), 4, os.SEEK_SET)
        result = runs.taupy("run", "-q", "--repeat", "2", "prog.py", stdin=file)
    assert result.stdout == "6\n6\n"


@pytest.mark.slow
def test_a_script_from_standard_input_is_run_each_time(runs):
    result = runs.taupy("run", "-q", "--repeat", "3", "-", input="print('hello')")
    assert result.stdout == "hello\n" * 3
    assert len(runs.sql("SELECT * FROM trial")) == 3


@pytest.mark.slow
def test_a_pipe_that_nobody_closes_holds_nothing_up(runs):
    (runs.folder / "prog.py").write_text("import sys; print(sys.stdin.readline(), end='')")
    command = [sys.executable, "-m", "taupy", "run", "-q", "--repeat", "3", "prog.py"]
    with subprocess.Popen(
        command,
        cwd=runs.folder,
        env=runs.environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdin.write("one\ntwo\n")
        process.stdin.flush()
        assert process.wait(timeout=120) == 0
        assert process.stdout.read() == "one\n" * 3


SLEEPING = """
import time
print("up", flush=True)
time.sleep(30)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_all_runs(runs, number, code):
    (runs.folder / "prog.py").write_text(SLEEPING)
    command = [sys.executable, "-m", "taupy", "run", "--repeat", "9", "prog.py"]
    process = subprocess.Popen(
        command, cwd=runs.folder, env=runs.environ(), stdout=subprocess.PIPE, stderr=-3
    )
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(timeout=120) == code
    assert process.stdout.read() == b""
    process.stdout.close()
    assert len(runs.sql("SELECT * FROM trial")) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
def test_ctrl_c_on_a_terminal_reaches_the_program_once(runs):
    (runs.folder / "prog.py").write_text(
        "import time, signal, sys, os\n"
        "try:\n    print(sys.stdin.isatty(), flush=True)\n    time.sleep(20)\n"
        "except KeyboardInterrupt:\n    print('caught', flush=True)\n"
        "time.sleep(0.3)\nprint('end', flush=True)\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(runs.folder)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "taupy", "run", "-q", "--repeat", "4", "prog.py"],
            runs.environ(),
        )
    output = b""
    sent = False
    deadline = time.time() + 120
    while time.time() < deadline:
        try:
            output += os.read(terminal, 1000)
        except OSError:
            break
        if b"True" in output and not sent:
            time.sleep(0.2)
            os.write(terminal, b"\x03")
            sent = True
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert output.replace(b"\r", b"").split() == [b"True", b"^Ccaught", b"end"]
    assert os.waitstatus_to_exitcode(status) == 130
    assert len(runs.sql("SELECT * FROM trial")) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--repeat", "0"), "from 1 to 10000, got 0"),
        (("--sweep", "n=1,2"), "no argument of the program contains {n}"),
        (("--sweep", "n"), "NAME=VALUE"),
        (("--repeat", "2", "--quiet", "--depth", "0"), "--depth must be at least 1"),
        (("--repeat", "2", "--merge-into", "latest"), "--merge-into needs a single run"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(runs, options, words):
    result = runs.run("", *options)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert words in result.stderr
    assert not runs.database.exists()


@pytest.mark.slow
def test_ranks_of_a_job_stay_together_run_by_run(runs):
    (runs.folder / "prog.py").write_text(PROGRAM)
    ranks = []
    for rank in range(2):
        job = {"RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "j", "MASTER_PORT": "1"}
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-m", "taupy", "run", "-q", "--repeat", "2", "prog.py", "5"],
                cwd=runs.folder,
                env={**runs.environ(), **job},
                stdout=-3,
            )
        )
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    assert runs.sql("SELECT nodes FROM trials") == [(2,), (2,)]
    assert len({metadata(runs, trial)["repeat"] for trial in (1, 2)}) == 1
