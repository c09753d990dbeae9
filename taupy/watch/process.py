"""The watch: a small process that sees from outside when and how each measured process ends.

    python -I -S -E ... FOLDER PID LAUNCHED_NS

It holds a pidfd of every process that has a part in the run folder, and writes a heartbeat into
the file `watch` there (`state/heartbeat.py`). It is not a child of the program, has none of its
descriptors, and sends no signals. If processes outlive the program, what it could not store itself
is stored as soon as it has ended, while the watch goes on. When no measured process is left, the
rest is stored; the watch ends if the run folder is gone then, or nothing came into it meanwhile. If
the database is locked, it tries again for an hour.

It takes less than 1 % of a core over the first 20 s: after expensive rounds it pauses longer. It
therefore imports only what it needs.
"""

import posix
import select
import sys
import time

from taupy.model.processes import process_start, stat_fields
from taupy.state import heartbeat, watch_files
from taupy.state.folder import Folder, open_run
from taupy.state.heartbeat import Beat, End
from taupy.watch import ANSWER, ending, pidfds
from taupy.watch.descendants import Descendants
from taupy.watch.lines import Lines
from taupy.watch.looks import Looks

INTERVAL_NS = 100_000_000
_JITTER_NS = 30_000_000  # rounds vary by up to this much, so as not to lock to a program's period
SHARE = 150  # the watch works for at most one in this many parts of its time
CREDIT_NS = 60_000_000  # CPU time that may be spent at first; starting takes half of it
CREDIT_AT_MOST_NS = 500_000_000  # the most CPU time that can be saved up
PAUSE_AT_MOST_NS = 20_000_000_000  # without a limit, the cost of naps could extend a pause forever
_WAITS = 75  # the exit code of a storer that found the database locked (`commands/storer.py`)
_PAUSES_S = (1, 2, 4, 8, 15, 30, *(60,) * 60)  # between its tries
_PART_SUFFIXES = (".part", ".pypart")
_FOLDED = "folded"
_COARSE_NS = 50_000_000  # resolution of folders' time stamps


class Watched:
    """A process that is watched.

    Attributes:
        pidfd: -1 if the kernel gives none.
        seen_ns: when it was last known to be alive.
        is_measured: it has a part, or is the program itself.
    """

    __slots__ = ("is_measured", "pid", "pidfd", "seen_ns", "start")

    def __init__(
        self, pid: int, pidfd: int, start: int, seen_ns: int, is_measured: bool = True
    ) -> None:
        self.is_measured = is_measured
        self.pid = pid
        self.pidfd = pidfd
        self.start = start
        self.seen_ns = seen_ns


class Watch:
    """The watch of one run.

    Args:
        launched_ns: a time before the program began.
        root: the program's process id.
        of_root: a pidfd of it, which tells how it ended even if that was before; or -1.
    """

    def __init__(self, folder: Folder, launched_ns: int, root: int, of_root: int = -1) -> None:
        self.folder = folder
        self.root = root
        self.of_root = of_root
        self.file = posix.open(
            watch_files.HEARTBEAT, posix.O_WRONLY | posix.O_NOFOLLOW, dir_fd=folder.descriptor
        )
        self.seen_file = posix.open(
            watch_files.FOUND, posix.O_WRONLY | posix.O_NOFOLLOW, dir_fd=folder.descriptor
        )
        self.noted = 0
        self.descendants = Descendants(root, folder.path)
        self.looks = Looks(folder)
        self.lines = Lines(folder)
        self.epoll = select.epoll()  # measured processes
        self.others = select.epoll()  # other processes, whose ends are noted at looks
        self.polled_ns = launched_ns  # when the others were last polled
        self.living: dict[int, Watched] = {}  # by process id
        self.measured = {root}
        self.by_pidfd: dict[int, Watched] = {}
        self.without_pidfd: list[Watched] = []
        self.parts: set[str] = set()  # names of known parts
        self.listed_ns = 0
        self.ended = 0
        self.has_stored = False
        self.looked_ns = launched_ns
        self.unpolled: set[int] = set()  # pidfds that have not been polled yet
        self.beat = Beat(time.monotonic_ns(), posix.getpid())
        self.cpu_ns = time.thread_time_ns()  # when the round began; the watch has one thread
        self.credit_ns = CREDIT_NS
        self.round_ns = INTERVAL_NS
        self.chance = posix.getpid()
        self.urgent_ns = 0  # CPU time of urgent work in the pause between two rounds
        self.rested_ns = 0  # CPU time when nothing but waiting for looks at lines began
        posix.pwrite(self.file, self.beat.packed(), 0)

    def run(self) -> None:
        """Watch until no measured process is left, and the run is stored."""
        while self.find() and (self.measured or self.store()):
            if self.root not in self.measured and not self.has_stored:
                self.has_stored = True
                _begin_storer(self.folder)
            self.account()
            self.look()
            self.take_ends(0)
            self.unpolled.clear()
            self.looks.look()
            self.lines.find(self.looks.parts.values(), time.monotonic_ns())
            self.write_beat()
            self.wait()

    def store(self) -> bool:
        """Store the run. False if the run folder is gone then, or nothing came into it meanwhile:
        a child may begin its part, or end, while the storer that does not wait for it works."""
        self.account()
        self.beat.is_over = self.has_stored = True
        self.write_beat()
        if not self.parts:
            return False  # the next command says that nothing was measured
        before = self.left()
        for pause in _PAUSES_S:
            storer = _begin_storer(self.folder, is_last=True)
            if not storer or posix.waitpid(storer, 0)[1] != _WAITS << 8:
                break
            _sleep(pause)  # the database is locked
            if self.left() != before:
                self.has_stored = False  # while the child that has begun goes on
                break
        self.beat.is_over = False
        return self.find() and self.left() != before

    def left(self) -> "tuple[int, tuple[int, ...]]":
        """What processes have left in the run folder: the number of parts, and which file of those
        that were folded into one."""
        try:
            status = posix.stat(_FOLDED, dir_fd=self.folder.descriptor)
        except OSError:
            return len(self.parts), ()
        return len(self.parts), (status.st_ino, status.st_size, status.st_mtime_ns)

    def find(self) -> bool:
        """Watch the processes whose parts are new. False if the run folder is gone."""
        status = posix.fstat(self.folder.descriptor)
        if status.st_nlink == 0:
            return False
        if status.st_mtime_ns + _COARSE_NS < self.listed_ns:
            return True
        self.listed_ns = time.time_ns()
        for name in posix.listdir(self.folder.descriptor):
            if name.endswith(_PART_SUFFIXES) and name not in self.parts:
                self.parts.add(name)
                pid = name.split("-")[0].split(".")[0]
                if pid.isdigit():
                    self.add(int(pid))
                    if int(pid) in self.living:
                        self.measured.add(int(pid))
                        self.looks.add(name)
        return True

    def add(self, pid: int) -> None:
        """Watch a measured process; if it has ended already, it did so since the last round."""
        now = time.monotonic_ns()
        try:
            pidfd = posix.pidfd_open(pid)
        except ProcessLookupError:
            pidfd = self.of_root if pid == self.root else -1
            self.note(Watched(pid, pidfd, 0, self.looked_ns), now)
            return
        except (OSError, AttributeError):
            pidfd = -1
        fields = stat_fields(pid)
        start = int(fields[19]) if fields else 0
        if self.has(pid, start):
            self.living[pid].start = start or self.living[pid].start
            self.measure(self.living[pid])
            if pidfd >= 0:
                posix.close(pidfd)  # after an exec, a process has two parts
            return
        self.take(Watched(pid, pidfd, start, now))

    def has(self, pid: int, start: int) -> bool:
        """Whether this process is watched, not an earlier one with the same id."""
        before = self.living.get(pid)
        if before is None:
            return False
        if before.start and start:
            return before.start == start
        return pidfds.parent(before.pidfd) is not None  # it has not been reaped, so the id is its

    def take(self, watched: Watched) -> None:
        self.living[watched.pid] = watched
        if watched.pidfd < 0:
            self.without_pidfd.append(watched)
            return
        self.by_pidfd[watched.pidfd] = watched
        self.unpolled.add(watched.pidfd)
        epoll = self.epoll if watched.is_measured else self.others
        epoll.register(watched.pidfd, select.EPOLLIN)

    def measure(self, watched: Watched) -> None:
        """Treat a process that was found as a descendant as a measured one."""
        if watched.pidfd >= 0 and not watched.is_measured:
            self.others.unregister(watched.pidfd)
            self.epoll.register(watched.pidfd, select.EPOLLIN)
        watched.is_measured = True

    def account(self, hurried: bool = False) -> None:
        """Note processes below the program, and watch them for their ends."""
        now = time.monotonic_ns()
        for descendant in self.descendants.look(now, hurried):
            if descendant.place < 0 and self.noted < heartbeat.SEEN_AT_MOST:
                descendant.place = self.noted
                self.noted += 1
            if descendant.place >= 0:
                place = descendant.place * heartbeat.SEEN_BYTES
                posix.pwrite(self.seen_file, descendant.packed(), place)
        for new in self.descendants.pending:
            if self.has(new.pid, new.start):
                if new.pidfd >= 0:
                    posix.close(new.pidfd)
            else:
                self.take(Watched(new.pid, new.pidfd, new.start, now, is_measured=False))
        self.take_others()
        self.beat.apart_ns = self.descendants.longest_ns
        self.beat.unseen = self.descendants.unseen

    def look(self) -> None:
        """Look at the processes without a pidfd."""
        for watched in self.without_pidfd.copy():
            now = time.monotonic_ns()
            if process_start(watched.pid) == watched.start:
                watched.seen_ns = now
            else:
                self.without_pidfd.remove(watched)
                self.note(watched, now)

    def write_beat(self) -> None:
        beat, now = self.beat, time.monotonic_ns()
        if beat.rounds:
            beat.longest_ns = max(beat.longest_ns, now - beat.beat_ns)
        beat.rounds += 1
        beat.beat_ns = self.looked_ns = now
        beat.cpu_ns = time.process_time_ns()
        posix.pwrite(self.file, beat.packed(), 0)

    def wait(self) -> None:
        """Wait until the next round: for ends of processes, if there is time for that."""
        began = self.looked_ns
        self.urgent_ns = 0
        self.chance = (self.chance * 1103515245 + 12345) % (1 << 31)
        self.round_ns = INTERVAL_NS - self.chance * _JITTER_NS // (1 << 31)
        is_running = self.root in self.measured
        self.rested_ns = time.thread_time_ns()
        while (left := began + self.pause_ns() - time.monotonic_ns()) > 0:
            if not self.measured or (is_running and self.root not in self.measured):
                break  # it is time to store
            if self.pause_ns() > INTERVAL_NS:
                self.nap(began)
            else:
                self.take_ends(self.until_lines(left) / 1e9)
                self.look_at_lines()
        now = time.thread_time_ns()
        earned = (time.monotonic_ns() - began) // SHARE - (now - self.cpu_ns)
        self.credit_ns = min(CREDIT_AT_MOST_NS, self.credit_ns + earned)
        self.cpu_ns = now

    def until_lines(self, left: int) -> int:
        """The time until the next look at lines, or `left` if that is less [ns]."""
        due = self.lines.due_ns
        return max(0, min(left, due - time.monotonic_ns())) if due else left

    def look_at_lines(self) -> None:
        """Look, if it is time. The looks have a budget of their own, for waking up, too."""
        if self.lines.due_ns and time.monotonic_ns() >= self.lines.due_ns:
            self.lines.look()
            now = time.thread_time_ns()
            self.lines.spent(now - self.rested_ns)
            self.cpu_ns += now - self.rested_ns
            self.rested_ns = now

    def nap(self, began: int) -> None:
        """Sleep for a part of a long pause; then do urgent work, in at most half of the CPU time
        available.

        A nap is as long as a round even if less is left: its own cost extends the pause, and ever
        shorter naps would use up the whole credit."""
        seen_ns = time.monotonic_ns()
        left = INTERVAL_NS
        while left > 0:
            pause = self.until_lines(left)
            _sleep(pause / 1e9)
            self.look_at_lines()
            left -= pause
        before = time.thread_time_ns()
        self.take_ends(0, alive_ns=seen_ns)
        now = self.beat.beat_ns = time.monotonic_ns()
        posix.pwrite(self.file, self.beat.packed(), 0)
        if self.urgent_ns * 2 * SHARE < now - began:
            self.account(hurried=True)
        self.rested_ns = time.thread_time_ns()
        self.urgent_ns += self.rested_ns - before

    def pause_ns(self) -> int:
        """The length of this round, given the CPU time that it has taken."""
        spent = time.thread_time_ns() - self.cpu_ns
        owed = (spent - self.credit_ns) * SHARE
        return max(self.round_ns, min(owed, PAUSE_AT_MOST_NS))

    def take_ends(self, seconds: float, alive_ns: int = 0) -> None:
        """Wait for ends of processes, and note them.

        Args:
            alive_ns: when they were last known to be alive; 0 if they end during this wait.
        """
        for pidfd, _ in self.epoll.poll(seconds):
            watched = self.by_pidfd.pop(pidfd)
            now = time.monotonic_ns()
            watched.seen_ns = self.looked_ns if pidfd in self.unpolled else alive_ns or now
            self.note(watched, now)
            posix.close(pidfd)
            self.rested_ns = time.thread_time_ns()

    def take_others(self) -> None:
        """Note the ends of processes that are not measured."""
        for pidfd, _ in self.others.poll(0):
            watched = self.by_pidfd.pop(pidfd)
            watched.seen_ns = self.polled_ns
            self.note(watched, time.monotonic_ns())
            posix.close(pidfd)
        self.polled_ns = time.monotonic_ns()

    def note(self, watched: Watched, now: int) -> None:
        """Record that a process has ended."""
        status = None
        if watched.is_measured:  # the status takes long, and is not used for other processes
            status = ending.status(watched.pid, watched.start, watched.pidfd)
        if self.living.get(watched.pid, watched) is watched:
            self.living.pop(watched.pid, None)
            self.measured.discard(watched.pid)
            self.descendants.tree.discard(watched.pid)
        if self.ended < heartbeat.ENDS_AT_MOST:
            end = End(watched.pid, watched.start, now, now - watched.seen_ns, status)
            at = heartbeat.HEADER_BYTES + self.ended * heartbeat.END_BYTES
            posix.pwrite(self.file, end.packed(), at)
            self.ended += 1


def _begin_storer(folder: Folder, is_last: bool = False) -> int:
    """Store what the ended processes have measured.

    Args:
        is_last: become the storer if there may be no further process.

    Returns:
        The storer's process id; 0 if there is nothing to store, or it cannot be started.
    """
    from taupy.state.values import Damaged, loads

    try:
        options = loads((folder / "run").read_record())["engine_options"]
        command = [*options["storer_argv"], b"watch"]
        environment = dict(posix.environ)
        environment.pop(b"TAUPY_BOOT", None)
        try:
            return posix.posix_spawn(command[0], command, environment)
        except BlockingIOError:
            if is_last:
                posix.execve(command[0], command, environment)
    except (OSError, Damaged, LookupError, TypeError, AttributeError):
        pass
    return 0  # the last process's end, or the next command, is another chance


def _sleep(seconds: float) -> None:
    """Not `time.sleep`, which waits for a time of the clock: that may stand still (libfaketime)."""
    select.select((), (), (), seconds)


def _raise_limit() -> None:
    """Raise the limit on descriptors: each pidfd is one."""
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    _, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (hard, hard))


def main(arguments: list[str]) -> None:
    """The watch's command line: FOLDER PID LAUNCHED_NS PIDFD."""
    path, pid, launched_ns, pidfd = arguments
    posix.close(ANSWER)
    _raise_limit()
    try:
        folder = open_run(path)
        watch = Watch(folder, int(launched_ns), int(pid), int(pidfd))
        watch.cpu_ns = 0  # starting counts, too
        watch.add(int(pid))
        watch.run()
    except OSError:
        return  # the run is stored, or the disk is full: ignored for the program's sake


if __name__ == "__main__":
    main(sys.argv[1:])
