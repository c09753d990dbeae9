"""Random runs, kills, recoveries and full disks: nothing may be lost or left behind.

    python -m tests.soak --seconds 3600 --seed 1

Every round performs a random action in its own folder and then checks the result: each run that
began is one trial or is named in a message, the database keeps its invariants, and no run folder,
temporary file or process is left. A failure is printed with the round's seed, and its folder is
kept.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests import preloads

LONGEST_S = 240
ROUTINES = 3000
PROGRAM = """
import os, sys, threading, time
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
print("begins", flush=True)
work(100)
if os.environ.get("FULL_MARK"): open(os.environ["FULL_MARK"], "w").close()
thread = threading.Thread(target=work, args=(50,))
thread.start(); thread.join()
for n in range(int(sys.argv[1])):
    exec(compile(f"def f{n}(): pass\\nf{n}()", "prog.py", "exec"), {})
for _ in range(int(sys.argv[2])):
    if not (pid := os.fork()):
        work(10)
        os._exit(0)
    os.waitpid(pid, 0)
time.sleep(float(sys.argv[3]))
"""


class Soak:
    """A folder with its own database, state and temporary files."""

    def __init__(self, folder: Path, random: Random, preload: Path | None) -> None:
        self.folder, self.random, self.preload = folder, random, preload
        self.state, self.temporary = folder / "state", folder / "tmp"
        self.database = folder / "taupy.db"
        self.temporary.mkdir()
        (folder / "prog.py").write_text(PROGRAM)
        self.began = 0  # runs whose program began
        self.messages = ""

    def environ(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TAU", "XDG_STATE"))}
        own = {"TAUPY_STATE_DIR": str(self.state), "TMPDIR": str(self.temporary)}
        return {**kept, **own, "HOME": str(self.folder), **more}

    def start(self, *arguments: object, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "taupy", *map(str, arguments)],
            cwd=self.folder,
            env=self.environ(**environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> str:
        try:
            out, err = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.messages += err
        # After a SIGINT before taupy's first line, Python prints its own message.
        assert "Traceback" not in err or err.rstrip().endswith("KeyboardInterrupt"), err
        return out + err

    def taupy(self, *arguments: object, **environ: str) -> str:
        return self.finish(self.start(*arguments, **environ))

    def start_run(self, routines: int, seconds: float = 0, **environ: str) -> subprocess.Popen[str]:
        engine = self.random.choice(("native", "native", "python"))
        children = self.random.randrange(3)
        return self.start("run", "--engine", engine, "--db", self.database, "prog.py",
                          routines, children, seconds, **environ)  # fmt: skip

    # ------------------------------------------------------------ one round each

    def whole_run(self) -> None:
        self.begins(self.finish(self.start_run(self.random.randrange(500))))

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill at any time: while `taupy run` prepares, the program runs, or the run is stored."""
        process = self.start_run(self.random.randrange(2000), self.random.random())
        try:
            self.begins(process.communicate(timeout=self.random.random() * 2)[0])
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            self.begins(self.finish(process))

    def end_by_signal(self) -> None:
        self.kill(self.random.choice((signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)))

    def recover_at_once(self) -> None:
        """Several commands find the same interrupted runs, and each run is stored and
        reported at most once: some of them the watch stores."""
        self.taupy("trials", "--db", self.database)
        runs = [self.start_run(50, 60) for _ in range(self.random.randrange(1, 6))]
        for process in runs:
            assert process.stdout is not None
            self.begins(process.stdout.readline())
            process.kill()
            self.finish(process)
        commands = [self.start("trials", "--db", self.database) for _ in range(6)]
        messages = "".join(self.finish(command) for command in commands)
        assert messages.count("recovered an interrupted run") <= len(runs), messages
        assert "not recovered" not in messages, messages

    def full_disk(self) -> None:
        if self.preload is None:
            return
        mark = self.folder / "mark"
        full = self.random.choice((f"{self.state}", f"{self.state}:{self.database}"))
        self.begins(
            self.taupy("run", "--db", self.database, "prog.py", ROUTINES, 2, 0,
                       LD_PRELOAD=str(self.preload), FULL_MARK=str(mark), FULL_PREFIXES=full)
        )  # fmt: skip
        mark.unlink(missing_ok=True)

    def kill_command(self) -> None:
        """Interrupt a writing command with a signal after which it can clean up."""
        self.whole_run()
        arguments: list[object] = ["export", "--format", "tau", "-o", self.folder / "exported"]
        if self.random.random() < 0.5:
            arguments = ["doctor", self.database]
        process = self.start(*arguments, *(["--db", self.database] if len(arguments) > 2 else []))
        try:
            process.communicate(timeout=self.random.random())
        except subprocess.TimeoutExpired:
            process.send_signal(self.random.choice((signal.SIGINT, signal.SIGTERM)))
            self.finish(process)
        shutil.rmtree(self.folder / "exported", ignore_errors=True)

    def kill_import(self) -> None:
        """A rescue file is imported as a whole or not at all, and is kept."""
        (self.folder / "no.db").mkdir()
        messages = self.taupy("run", "--db", self.folder / "no.db", "prog.py", 500, 1, 0)
        (rescue,) = self.folder.glob("no.db-*.taupy-run")
        assert str(rescue) in messages
        process = self.start("import", "--db", self.database, rescue)
        try:
            process.communicate(timeout=self.random.random())
        except subprocess.TimeoutExpired:
            process.send_signal(self.random.choice((signal.SIGKILL, signal.SIGTERM)))
            self.finish(process)
        self.taupy("import", "--db", self.database, rescue)
        self.began += 1
        rescue.unlink()
        (self.folder / "no.db").rmdir()

    def serve(self) -> None:
        process = self.start("serve", "--db", self.database, "--port", 0)
        time.sleep(self.random.random() * 3)
        process.send_signal(self.random.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
        self.finish(process)

    def begins(self, output: str) -> None:
        self.began += output.startswith("begins")

    # ------------------------------------------------------------ what must be so afterwards

    def check(self) -> None:
        for folder in self.state.glob("run-*"):
            os.utime(folder, (0, 0))  # abandoned files are deleted after a day
        self.taupy("trials", "--db", self.database)
        for rescue in self.folder.glob("taupy.db-*.taupy-run"):
            assert str(rescue) in self.messages, f"{rescue.name} was never named"
            self.taupy("import", "--db", self.database, rescue)
            rescue.unlink()
        # A killed program's watch and children end by themselves, when a busy machine lets them.
        until = time.monotonic() + LONGEST_S
        while (left := self.left_behind()) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left, f"left behind: {left}"
        if self.database.exists():
            self.check_trials()

    def left_behind(self) -> list[str]:
        """Files of runs, and processes with this state folder in their environment."""
        names = {"taupy.db", "prog.py", "state", "tmp"}
        left = [*self.state.glob("*"), *self.temporary.iterdir()]
        left += [path for path in self.folder.iterdir() if path.name not in names]
        return [*map(str, left), *processes_of(self.state)]

    def check_trials(self) -> None:
        report = self.taupy("doctor", self.database)
        assert "broken" not in report, report
        rows = self.taupy(
            "query", "SELECT count(*) AS n FROM trial", "--db", self.database, "--csv"
        )
        stored = int(rows.split()[-1]) if rows.split()[-1].isdigit() else 0
        unmeasured = len(re.findall("nothing was measured", self.messages))
        assert stored + unmeasured >= self.began, f"{stored} trials of {self.began} runs"


def processes_of(state: Path) -> list[str]:
    """Processes with this state folder in their environment, by number and command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(state) in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"{folder.name} ({os.fsdecode(command)})")
        except OSError:
            continue
    return found


ACTIONS: dict[str, Callable[[Soak], None]] = {
    action.__name__: action
    for action in (
        Soak.whole_run, Soak.kill, Soak.end_by_signal, Soak.recover_at_once, Soak.full_disk,
        Soak.kill_command, Soak.kill_import, Soak.serve,
    )
}  # fmt: skip
ACTIONS_A_ROUND = 4


def preload(folder: Path) -> Path | None:
    """The library that simulates a full disk, if there is a C compiler."""
    return preloads.built(Path(__file__).with_name("integration") / "full_disk.c", folder)


def one_round(folder: Path, seed: int, full: Path | None, actions: list[str] | None = None) -> str:
    """The problems after some actions, which are given or chosen by the seed."""
    random = Random(seed)
    place = folder / str(seed)
    place.mkdir()
    soak = Soak(place, random, full)
    names = actions or [random.choice(list(ACTIONS)) for _ in range(ACTIONS_A_ROUND)]
    try:
        for name in names:
            ACTIONS[name](soak)
        soak.check()
    except (AssertionError, subprocess.TimeoutExpired) as problem:
        return f"seed {seed} ({', '.join(names)}): {problem}\n{soak.messages}"
    shutil.rmtree(place)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    from tests.conftest import restore_signals

    restore_signals()  # a shell makes background processes ignore SIGINT
    folder = Path(tempfile.mkdtemp(prefix="taupy-soak-"))
    full = preload(folder)
    until, seed, faults = time.monotonic() + args.seconds, args.seed, 0
    while time.monotonic() < until:
        if wrong := one_round(folder, seed, full):
            faults += 1
            print(wrong, flush=True)
        seed += 1
    print(f"{seed - args.seed} rounds of {ACTIONS_A_ROUND} actions: {faults} went wrong")
    print(f"what is left of those lies in {folder}" if faults else "nothing is left behind")
    if not faults:
        shutil.rmtree(folder)
    return bool(faults)


if __name__ == "__main__":
    raise SystemExit(main())
