"""Ctrl-C at any moment of a command that writes: one line, exit code 130, nothing half written."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taupy.answers import ANSWERS
from taupy.commands import COMMANDS
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.state.saving import save_named
from tests.in_process import taupy
from tests.unit.roofline.build import cpu_trial

MOMENTS = 4
COMMAND = """
import resource, signal, sys
after = float(sys.argv.pop(1))
from taupy.__main__ import main
if after:
    signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_PROF, after)
code = main()
signal.setitimer(signal.ITIMER_PROF, 0)
with open(3, "w") as file:
    print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]), file=file)
sys.exit(code)
"""
"""`taupy` that is interrupted after so much CPU time of its own, if not 0: the same moments of its
work on a busy machine. It says how much it has used."""

LINES = {
    "import": ("import", "STACKS", "--format", "collapsed", "--db", "new.db"),
    "merge": ("merge", "new.db", "SOURCE"),
    "export": ("export", "1", "-o", "out.speedscope.json", "--db", "SOURCE"),
    "export to pprof": ("export", "1", "-o", "out.pb.gz", "--db", "SOURCE"),
    "report": ("report", "1", "-o", "out.html", "--db", "SOURCE"),
    "roofline": ("roofline", "latest", "-o", "out.html", "--db", "SOURCE"),
    "roofline in a picture": (
        "roofline", "latest", "-o", "out.svg", "--db", "SOURCE",
    ),
    "pprof": ("pprof", "1", "--parquet", "out.parquet", "--db", "SOURCE"),
    "pivot": ("pivot", "--rows", "routine", "--parquet", "out.parquet", "--db", "SOURCE"),
    "compare": ("compare", "1", "2", "--metric", "samples", "--fail-on", "samples > +900%",
                "--undecided", "pass",
                "--junit", "out.xml", "--db", "SOURCE"),
    "query": ("query", "select * from callpaths", "--parquet", "out.parquet", "--db", "SOURCE"),
    "trials": ("trials", "delete", "1", "--yes", "--db", "COPY"),
    "ceilings": ("ceilings", "datasheet", "H100", "--keep", "--db", "COPY"),
    "derive": ("derive", "add", "mean_call", "time / calls", "--db", "COPY"),
}  # fmt: skip
"""What writes files, makes a database, or changes one."""
SOME = {"export to pprof": 2, "pprof": 2, "query": 2, "pivot": 2}
"""Moments of commands that write as others do."""
SEVERAL = {"roofline in a picture"}
"""What writes several files, each whole, and says so of each."""
READS = {
    *("top", "dump", "doctor", "static", "avail", "completion", "help", "serve", "clean"),
    *("kernel", *ANSWERS),
}
"""These write nothing but with `--parquet`, as `pprof` does. (`clean` removes files one by one, and
`serve` is ended by Ctrl-C.)"""
ELSEWHERE = {
    "run": "integration/test_sweep.py", "gate": "integration/test_gate.py",
    "sweep": "integration/test_sweep.py", "attach": "integration/test_attach.py",
    "setup": "integration/test_ctrl_c.py",
    "push": "store/test_store.py", "pull": "store/test_store.py", "store": "store/test_upkeep.py",
}  # fmt: skip
"""Where the others are interrupted or killed."""


def test_of_every_command_it_is_known_where_it_is_interrupted():
    here = {words[0] for words in LINES.values()}
    assert {*COMMANDS} == here | (READS & {*COMMANDS}) | {*ELSEWHERE}
    for place in ELSEWHERE.values():
        assert (Path(__file__).parents[1] / place).exists(), place


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Stacks of 10,000 samples, and a database of them."""
    folder = tmp_path_factory.mktemp("given")
    numbers = random.Random(1)
    with open(folder / "stacks.txt", "w") as file:
        for _ in range(10_000):
            names = (f"f{numbers.randrange(60)} (m.py:{numbers.randrange(9)})" for _ in range(6))
            print(f"main (a.py:1);{';'.join(names)} {numbers.randrange(1, 99)}", file=file)
    for name in ("one", "two"):
        made = taupy("import", folder / "stacks.txt", "--format", "collapsed", "--name", name,
                     "--db", folder / "a.db")  # fmt: skip
        assert made.returncode == 0, made.stderr
    with ProfileDB.open(folder / "a.db", readonly=False) as db:
        add_profile(db, cpu_trial(3))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_ctrl_c_leaves_nothing_half_written(given, command, tmp_path):
    line = LINES[command]
    if "--parquet" in line:
        pytest.importorskip("pyarrow")
    changes = "COPY" in line
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}

    def run(after: float, name: str):
        folder = tmp_path / name
        folder.mkdir()
        (tmp_path / "temporary").mkdir(exist_ok=True)
        if changes:
            shutil.copy(given / "a.db", folder / "copy.db")
        places = {"STACKS": given / "stacks.txt", "SOURCE": given / "a.db", "COPY": "copy.db"}
        words = [str(places.get(word, word)) for word in line]
        used, ours = os.pipe()
        program = COMMAND.replace("open(3,", f"open({ours},")
        done = subprocess.run(
            [sys.executable, "-c", program, str(after), *words],
            cwd=folder, env=environment, capture_output=True, text=True, pass_fds=(ours,),
        )  # fmt: skip
        os.close(ours)
        with open(used) as file:
            return done, float(file.read() or 0)

    whole, took = run(0, "whole")
    assert whole.returncode == 0, whole.stderr
    made = sorted(os.listdir(tmp_path / "whole"))
    before, changed = (0, 0), state(tmp_path / "whole")
    if changes:
        before = state(given)
    moments = SOME.get(command, MOMENTS)
    for number in range(moments):
        after = took * (number + random.random()) / moments
        done, _ = run(after, str(number))
        folder = tmp_path / str(number)
        left = sorted(os.listdir(folder))
        if done.returncode == 0:  # it was done before
            assert left == made, after
            assert state(folder) == changed, after
            continue
        assert done.returncode == 130, (after, done.stderr)
        *before_that, last = done.stderr.splitlines(keepends=True)
        assert last == "taupy: stopped by Ctrl-C; nothing is left half written\n", after
        if command in SEVERAL:
            assert {line.split()[-1] for line in before_that} <= {*left} <= {*made}, after
            for name in left:
                ends = [(place / name).read_bytes()[-6:] for place in (folder, tmp_path / "whole")]
                assert ends[0] == ends[1], (after, name)
            left = []
        else:
            assert before_that == [], after
        assert left in ([], ["copy.db"], ["new.db"]), after
        assert os.listdir(tmp_path / "temporary") == [], after
        for name in left:  # a new one had been made, and holds no trial
            assert taupy("doctor", folder / name).returncode == 0, after
            assert state(folder) in (before, changed if changes else before), after


def state(folder: Path) -> tuple[int, int]:
    """How many trials, and derived metrics and ceilings, the databases in a folder hold."""
    trials = others = 0
    for file in folder.glob("*.db"):
        with ProfileDB.open(file) as db:
            trials += len(db.trials())
            for table in ("derived_metric", "ceiling"):
                others += len(db.rows(f"SELECT 1 FROM {table}"))
    return trials, others


COMPILER = """#!/bin/sh
trap 'rm -f "$TMPDIR/of-compiler"; exit 1' TERM
touch "$TMPDIR/of-compiler"
sleep 600 &
echo $! > "$TMPDIR/child"
wait
"""


@pytest.mark.slow
def test_ctrl_c_while_a_library_for_pytorch_is_built(tmp_path):
    torch = tmp_path / "packages" / "torch"
    for name in ("lib", "include/ATen", "include/torch/csrc/autograd"):
        (torch / name).mkdir(parents=True)
    (torch / "version.py").write_text("__version__ = '2.99.0'\n")
    (torch / "lib/libtorch_cpu.so").touch()
    (torch / "lib/libc10.so").write_bytes(b"torchCheckFailEPKcS2_jRKNSt7__cxx11")
    (torch / "include/ATen/record_function.h").touch()
    compiler = tmp_path / "bin" / "c++"
    compiler.parent.mkdir()
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    temporary, state = tmp_path / "temporary", tmp_path / "state"
    temporary.mkdir()
    start = (
        f"import sys; sys.path.insert(0, {str(torch.parent)!r}); "
        "from taupy import commands; sys.exit(commands.main())"
    )
    setup = subprocess.Popen(
        [sys.executable, "-c", start, "setup", "torch"], text=True, stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ, "TAUPY_STATE_DIR": str(state), "TMPDIR": str(temporary),
            "PATH": f"{compiler.parent}:{os.environ['PATH']}",
        },
    )  # fmt: skip
    child = temporary / "child"
    while not (child.exists() and child.read_text()):
        assert setup.poll() is None, setup.communicate()
        time.sleep(0.02)
    setup.send_signal(signal.SIGINT)
    _, said = setup.communicate(timeout=120)
    assert setup.returncode == 130
    assert said == (
        "taupy: stopped by Ctrl-C; the libraries named above are kept, and `taupy setup torch` "
        "makes the rest\n"
    )
    assert [file.name for file in state.rglob("autograd*")] == []
    assert not (temporary / "of-compiler").exists()
    with pytest.raises(ProcessLookupError):  # what the compiler started has ended as well
        while True:
            os.kill(int(child.read_text()), 0)
            time.sleep(0.02)


def test_a_page_that_cannot_be_written_as_a_whole_leaves_the_old_one(tmp_path, monkeypatch):
    page, link, whole = tmp_path / "page.html", tmp_path / "link.html", "new" * 1000
    page.write_text("old")
    page.chmod(0o640)
    link.symlink_to(page.name)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            save_named(page, whole)
    assert page.read_text() == "old" and sorted(tmp_path.iterdir()) == [link, page]
    save_named(page, whole)
    assert page.read_text() == whole and page.stat().st_mode & 0o777 == 0o640
    save_named(link, "through the link")
    assert link.is_symlink() and page.read_text() == "through the link"
    assert sorted(tmp_path.iterdir()) == [link, page]
