"""Folders that belong to this user alone, and the files in them.

A state folder may be where others can write, as in a shared /tmp. Nothing in it is therefore
accessed by path: the folder is opened once, its owner and mode are checked through the descriptor,
and everything inside is opened relative to that descriptor, never through a symbolic link, never
blocking on a pipe, and only if it is a regular file of this user and not too large. Anything else
raises `Untrusted`, is left unchanged, and is reported in one line.

Runs inside the measured process, too: built-in modules only.
"""

import posix

from taupy.state.limits import DENSE_BYTES, EXPANSION, PART_BYTES, RECORD_BYTES

_TYPE, _DIRECTORY, _REGULAR = 0o170000, 0o040000, 0o100000
_OTHERS, _OTHERS_WRITE, _STICKY = 0o077, 0o022, 0o1000
_SAFELY = posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
_FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | _SAFELY
_READ = posix.O_RDONLY | _SAFELY
_NEW = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | _SAFELY
_LOCK = posix.O_RDWR | posix.O_CREAT | _SAFELY
_OURS = ("run-", "autograd-", "collectives-", "operators-", "compiling", "salt", "trusted")
_NO_FILE = 22  # EINVAL
BESIDE = ".running"
"""How the name of a state folder beside a database ends: its runs would be lost with a container's
file system, or nobody would store them."""

VARIABLE = "TAUPY_BOOT"
"""The variable that names the run folder, `FOLDER/.NUMBER`. It stays in the C environment, so that
child processes inherit it, and is removed from `os.environ`, so that the program does not see it.
The number is random: no command line shows it, and no other user can claim to be of this run."""

ELSEWHERE = ".elsewhere"
"""Ending of the name of a file for a process whose program another run measures. It holds the
time (CLOCK_MONOTONIC, ns) and the ids of the processes above it, with blanks in between."""

SUBINTERPRETERS = ".subinterpreters"
"""Ending of the file in the run folder that has one byte for each subinterpreter of a process."""

VERSION = 4
"""Version of the settings of a run (`runfolder.RunSettings`)."""

_KINDS = {
    0o010000: "a named pipe",
    0o020000: "a device",
    _DIRECTORY: "a folder",
    0o060000: "a device",
    _REGULAR: "a regular file",
    0o120000: "a symbolic link",
    0o140000: "a socket",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from types import TracebackType
    from typing import BinaryIO


def kind(mode: int) -> str:
    """What a file of this mode is, for messages."""
    return _KINDS.get(mode & _TYPE, "of no known kind")


class Untrusted(OSError):
    """A folder or file does not belong to this user, or differs from those that taupy writes.

    The message contains its name and the reason.
    """


class Folder:
    """An open folder; everything in it is accessed through its descriptor.

    Attributes:
        path: its path, for messages.
        descriptor: descriptor of the open folder.
        is_ours: whether files of other users in it are rejected.
    """

    def __init__(self, path: str, descriptor: int, *, is_ours: bool = True) -> None:
        self.path = path
        self.descriptor = descriptor
        self.is_ours = is_ours

    def __enter__(self) -> "Folder":
        return self

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __truediv__(self, name: str) -> "File":
        return File(self, name)

    def __str__(self) -> str:
        return self.path

    def close(self) -> None:
        if self.descriptor >= 0:
            posix.close(self.descriptor)
            self.descriptor = -1

    def names(self) -> list[str]:
        """All names in the folder, sorted."""
        return sorted(posix.listdir(self.descriptor))

    def files(self, *endings: str) -> "list[File]":
        """The files whose names end with one of these, sorted; they are not opened yet."""
        return [File(self, name) for name in self.names() if name.endswith(endings)]

    def folder(self, name: str) -> "Folder":
        """A folder in this one, which must also belong to this user.

        Raises:
            Untrusted: it does not, or others may write in it.
            FileNotFoundError: it does not exist.
        """
        return _run_folder(f"{self.path}/{name}", name, self.descriptor)

    def make_folder(self, name: str) -> "Folder":
        """A new folder in this one, for this user only.

        Raises:
            FileExistsError: there is something of that name.
        """
        before = posix.umask(0o077)
        try:
            posix.mkdir(name, 0o700, dir_fd=self.descriptor)
        finally:
            posix.umask(before)
        return self.folder(name)

    def remove(self) -> None:
        """Remove the folder with the files in it, as far as possible. The files that identify the
        run and list what is stored are removed last, so that another process can finish an
        interrupted removal. The lock is removed after them, so that no process locks a run that
        still exists by a new file."""
        last, failed = ("nodes", "run", "lock"), False
        for name in sorted(self.names(), key=lambda name: name in last and 1 + last.index(name)):
            if failed and name in last:
                return
            try:
                File(self, name).unlink(missing_ok=True)
            except OSError:
                failed = True
        try:
            posix.rmdir(self.path)
            if (parent := self.path.rpartition("/")[0]).endswith(BESIDE):
                posix.rmdir(parent)  # beside a database, where it would be in the way
        except OSError:
            return

    def is_gone(self) -> bool:
        """Whether the folder was removed or replaced since it was opened."""
        try:
            now, here = posix.stat(self.path), posix.fstat(self.descriptor)
        except OSError:
            return True
        return (now.st_dev, now.st_ino) != (here.st_dev, here.st_ino)


class File:
    """A name in a folder; every use of it is checked again."""

    __slots__ = ("folder", "name")

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder = folder
        self.name = name

    def __str__(self) -> str:
        return f"{self.folder.path}/{self.name}"

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def suffix(self) -> str:
        stem, dot, ending = self.name.rpartition(".")
        return dot + ending if stem else ""

    def with_suffix(self, suffix: str) -> "File":
        return File(self.folder, self.stem + suffix)

    def exists(self) -> bool:
        """Whether anything has this name."""
        try:
            posix.stat(self.name, dir_fd=self.folder.descriptor, follow_symlinks=False)
        except OSError:
            return False
        return True

    def descriptor(self, limit: int = PART_BYTES) -> int:
        """An open descriptor for reading.

        Raises:
            Untrusted: it is not a regular file of this user, or larger than `limit` bytes.
            FileNotFoundError: it does not exist.
        """
        return self._opened(_READ, limit)

    def _opened(self, flags: int, limit: int, mode: int = 0) -> int:
        path, inside = str(self), self.folder.descriptor
        if not flags & posix.O_CREAT or self.exists():
            # Opening a device may have side effects; an opened file is checked again.
            status = _status(path, self.name, inside)
            _check_kind(path, status.st_mode, _REGULAR)
        descriptor = _open(path, self.name, flags, inside, mode)
        try:
            status = posix.fstat(descriptor)
            _check_kind(path, status.st_mode, _REGULAR)
            if self.folder.is_ours:
                _check_owner(path, status)
            if status.st_size > limit:
                raise Untrusted(f"{path} has {status.st_size} bytes: more than taupy writes")
            if not self.folder.is_ours and _is_hollow(descriptor, status.st_size):
                raise Untrusted(f"{path} has {status.st_size} bytes, and hardly any on disk")
        except BaseException:
            posix.close(descriptor)
            raise
        return descriptor

    def size(self) -> int:
        """The size of the file in bytes; raises like `descriptor`."""
        descriptor = self.descriptor()
        try:
            return posix.fstat(descriptor).st_size
        finally:
            posix.close(descriptor)

    def read_bytes(self, limit: int = PART_BYTES, first: int = -1, at: int = 0) -> bytes:
        """The content from a byte on, or its `first` bytes; raises like `descriptor`."""
        descriptor = self.descriptor(limit)
        try:
            wanted = max(0, posix.fstat(descriptor).st_size - at)
            posix.lseek(descriptor, at, 0)
            if 0 <= first < wanted:
                wanted = first
            pieces = []
            while wanted > 0:
                piece = posix.read(descriptor, min(wanted, 1 << 30))
                if not piece:
                    break
                pieces.append(piece)
                wanted -= len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            posix.close(descriptor)

    def read_record(self) -> bytes:
        """The content of a small file; raises like `descriptor`."""
        return self.read_bytes(RECORD_BYTES)

    def open(self, mode: str = "rb") -> "BinaryIO":
        """A file object for reading; raises like `descriptor`."""
        import io

        return io.open(self.descriptor(), mode)  # type: ignore[return-value]  # noqa: UP020

    def create(self) -> int:
        """A descriptor for writing a new file, for this user only; it must not exist yet."""
        return posix.open(self.name, _NEW, 0o600, dir_fd=self.folder.descriptor)

    def write_bytes(self, data: bytes) -> None:
        """Write or replace the file atomically; after a failure the old one is unchanged."""
        new = File(self.folder, self.name + ".new")
        new.unlink(missing_ok=True)  # left by a process that was killed here
        try:
            descriptor = new.create()
            try:
                view = memoryview(data)
                while view:
                    view = view[posix.write(descriptor, view) :]
            finally:
                posix.close(descriptor)
            new.rename(self.name)
        except BaseException:
            new.unlink(missing_ok=True)
            raise

    def rename(self, name: str) -> None:
        here = self.folder.descriptor
        posix.rename(self.name, name, src_dir_fd=here, dst_dir_fd=here)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            posix.unlink(self.name, dir_fd=self.folder.descriptor)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def lock_descriptor(self) -> int:
        """A descriptor for locking the file; an empty file is created if it is missing."""
        return self._opened(_LOCK, PART_BYTES, 0o600)


def open_own(path: str) -> Folder:
    """Open a folder that must belong to this user, even if this user is root, and that nobody else
    can replace: state is used by path, too. (Beside a database, that is up to where the user keeps
    it.)

    A mode wider than 0700 is tightened through the descriptor.

    Raises:
        Untrusted: it is a symbolic link, not a folder, another user's, or shared by all users.
        FileNotFoundError: it does not exist.
        OSError: it cannot be opened.
    """
    path = path.rstrip("/") or "/"  # a slash at the end would follow a symbolic link
    descriptor = _own_folder(path, path, None)
    try:
        mode = posix.fstat(descriptor).st_mode
        if mode & _STICKY:
            raise Untrusted(f"{path} is a folder for all users (sticky)")
        if mode & _OTHERS:
            _tighten(path, descriptor)
        from taupy.state import changers  # not in the measured process

        if not path.endswith(BESIDE) and (why := changers.others(path, spares_own_group=True)):
            raise Untrusted(f"{why}, and could put another folder in the place of {path}")
    except BaseException:
        posix.close(descriptor)
        raise
    return Folder(path, descriptor)


def open_run(path: str) -> Folder:
    """Open a run folder by its path; it must belong to this user and be writable by nobody else.

    Raises:
        Untrusted, FileNotFoundError, OSError: as for `open_own`.
    """
    return _run_folder(path.rstrip("/") or "/", path.rstrip("/") or "/", None)


def open_any(path: str) -> Folder:
    """Open a folder named by the user, of any owner, for reading only.

    Raises:
        OSError: it cannot be opened.
    """
    flags = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC
    return Folder(path, posix.open(path, flags), is_ours=False)


def _run_folder(path: str, name: str, inside: int | None) -> Folder:
    descriptor = _own_folder(path, name, inside)
    if posix.fstat(descriptor).st_mode & _OTHERS_WRITE:
        posix.close(descriptor)
        raise Untrusted(f"{path} may be written by other users")
    return Folder(path, descriptor)


def _own_folder(path: str, name: str, inside: int | None) -> int:
    _check_kind(path, _status(path, name, inside).st_mode, _DIRECTORY)
    descriptor = _open(path, name, _FOLDER, inside)
    try:
        _check_owner(path, posix.fstat(descriptor))
    except BaseException:
        posix.close(descriptor)
        raise
    return descriptor


def _tighten(path: str, descriptor: int) -> None:
    """Restrict a state folder to this user, if it contains only files of taupy."""
    foreign = [name for name in posix.listdir(descriptor) if not name.startswith(_OURS)]
    if foreign:
        raise Untrusted(
            f"{path} is open to other users and contains more than taupy's runs (such as "
            f"{foreign[0]!r}): close it by `chmod 700`, or name another folder"
        )
    try:  # noqa: SIM105 - contextlib is not built in
        posix.fchmod(descriptor, 0o700)
    except OSError:
        pass
    if posix.fstat(descriptor).st_mode & _OTHERS:
        raise Untrusted(f"{path} is open to other users, and its mode cannot be changed")


def _status(path: str, name: str, inside: int | None) -> posix.stat_result:
    try:
        return posix.stat(name, dir_fd=inside, follow_symlinks=False)
    except OSError as problem:
        raise type(problem)(problem.errno, problem.strerror, path) from None


def _open(path: str, name: str, flags: int, inside: int | None, mode: int = 0) -> int:
    try:
        return posix.open(name, flags, mode, dir_fd=inside)
    except OSError as problem:
        raise type(problem)(problem.errno, problem.strerror, path) from None


def _check_kind(path: str, mode: int, wanted: int) -> None:
    if mode & _TYPE != wanted:
        raise Untrusted(f"{path} is {kind(mode)}, not {_KINDS[wanted]}")


def _check_owner(path: str, status: posix.stat_result) -> None:
    if status.st_uid != posix.geteuid():
        raise Untrusted(f"{path} belongs to user {status.st_uid}, not to you")


def _is_hollow(descriptor: int, size: int) -> bool:
    """Whether it consists mostly of holes, like a file crafted to be large."""
    if size <= DENSE_BYTES:
        return False
    data = at = 0
    try:
        while at < size and data * EXPANSION < size:
            begin = posix.lseek(descriptor, at, posix.SEEK_DATA)
            at = posix.lseek(descriptor, begin, posix.SEEK_HOLE)
            data += at - begin
    except OSError:
        pass  # ENXIO: only a hole follows
    posix.lseek(descriptor, 0, 0)
    return data * EXPANSION < size


def open_named(path: "str | PathLike[str]") -> "BinaryIO":
    """A file that a user has named, for reading; nothing that would block, or never end.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    _check_named(path, posix.stat(path).st_mode)  # a socket could not be opened
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    try:
        _check_named(path, posix.fstat(descriptor).st_mode)
    except OSError:
        posix.close(descriptor)
        raise
    return open(descriptor, "rb")


def _check_named(path: "str | PathLike[str]", mode: int) -> None:
    if mode & _TYPE != _REGULAR:
        raise OSError(_NO_FILE, f"it is {kind(mode)}, not a file", str(path))
