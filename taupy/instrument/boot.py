"""Start the engine inside the program's interpreter, and leave no trace that the program can see.

Called by `taupy_boot.pth` while `site` runs, before the program. Only built-in modules are
imported, and afterwards no module, variable or file of taupy is visible. If a measurement cannot
start, a line in the run folder says so, and the program is unharmed.
(No `from __future__` here: that would be an import.)

Whoever sets taupy's variable chooses the program that stores the run. The variable therefore counts
only if it names a folder of this user in which nobody else may write, and never in a process with
more rights than the one that set it (`state/rights.py`), as far as ids tell and, in an interpreter
that is guarded from its user (-I, -E, -s, -P), group and capabilities. In one that ignores its
environment (-I, -E), this process must also descend from the program that the run measures.
"""

import posix
import sys

from taupy.state import rights
from taupy.state.folder import (
    ELSEWHERE,
    SUBINTERPRETERS,
    VARIABLE,
    VERSION,
    File,
    Folder,
    open_run,
)
from taupy.state.values import Damaged, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NCCL = b"NCCL_PROFILER_PLUGIN"
"""The variable that names NCCL's profiler plug-in. It stays in the C environment only."""

INJECTIONS = (b"CUDA_INJECTION64_PATH", b"NVTX_INJECTION64_PATH")
"""The variables that name our GPU collector, which the CUDA driver loads at the first cuInit and
NVTX at the first range. They too stay in the C environment only."""


_ENTRY = "from taupy.__main__ import main"
"""In the script `taupy` that an installer has made."""

_RESOURCES = "resource_tracker import main"


def boot() -> None:
    """Start the measurement that the run folder's settings describe."""
    folder = posix.environ.pop(VARIABLE.encode(), None)
    modules = sys.modules
    if folder is None or b"\0" in folder:
        return
    os = modules.get("os")
    if os is not None:
        os.environ._data.pop(VARIABLE.encode(), None)
    above, _, last = folder.rpartition(b"/")
    folder = above if last.startswith(b".") else folder
    bytecode = sys.dont_write_bytecode
    try:
        sys.dont_write_bytecode = True
        _start(folder)
    except BaseException:  # the program must start whatever happens here
        pass
    finally:
        sys.dont_write_bytecode = bytecode
    package = __file__[: -len("instrument/boot.py")]
    for path in [path for path in sys.path_importer_cache if (path + "/").startswith(package)]:
        del sys.path_importer_cache[path]
    # The plain engine still needs its modules.
    running = "taupy.instrument.engine" in modules and sys.getprofile() is not None
    ours = [name for name in modules if name == "taupy" or name.startswith("taupy.")]
    for module in [modules.pop(name) for name in ours]:
        if not running:
            module.__dict__.clear()  # breaks reference cycles, also this module's own


def _start(path: bytes) -> None:
    if rights.are_raised():
        return
    try:
        folder = open_run(path.decode("utf-8", "surrogateescape"))
    except OSError:
        return  # not ours, or a late child of a run that is over
    try:
        _start_in(folder, path)
    finally:
        folder.close()


def _start_in(folder: Folder, path: bytes) -> None:
    flags = sys.flags
    ignores_environment = flags.isolated or flags.ignore_environment
    is_wary = ignores_environment or flags.no_user_site or flags.safe_path
    try:
        settings = loads((folder / "run").read_record())
    except OSError:
        return  # not ours, or the run is over
    except Damaged:
        if not ignores_environment:
            _note(folder, "the run was launched by another version of taupy")
        return
    if is_wary and rights.exceed(folder):
        _note(folder, "it is guarded from its user (-I, -E, -s, -P), who may lack its rights")
        return
    if ignores_environment and not _descends_from(settings):
        if _is_live(settings):
            _note(folder, "it ignores its environment (-I, -E) and has no parent in the run")
        return
    try:
        _start_engine(settings, path)
    except BaseException as problem:  # the program must start whatever happens here
        # Those of the engines, and of CPython's import of a module that does not support them.
        if "subinterpreter" in str(problem) or "running already" in str(problem):
            _count_subinterpreter(folder)
        else:
            _note(folder, f"{type(problem).__name__}: {problem}")


def _is_live(settings: "dict[str, Any]") -> bool:
    """Whether the measured program is still running. Process ids in a file are valid only for
    the same boot of the same machine."""
    root = settings["root_pid"]
    if _file("/proc/sys/kernel/random/boot_id").strip() != settings["boot_id"]:
        return False
    start: int = settings["root_start"]
    return start != 0 and _parent_and_start(root)[1] == start


def _descends_from(settings: "dict[str, Any]") -> bool:
    """Whether this process is the program that the run measures, or descends from it."""
    root, pid = settings["root_pid"], posix.getpid()
    while pid not in (0, root):
        pid = _parent_and_start(pid)[0]
    return bool(pid == root != 0 and _is_live(settings))


def _parent_and_start(pid: int) -> "tuple[int, int]":
    """The parent and start time of a process; zeros if there is none."""
    text = _file(f"/proc/{pid}/stat")
    fields = text[text.rfind(")") + 2 :].split()  # the name may hold blanks and brackets
    return (int(fields[1]), int(fields[19])) if len(fields) > 19 else (0, 0)


def _file(path: str) -> str:
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return posix.read(descriptor, 4096).decode("utf-8", "replace")
    finally:
        posix.close(descriptor)


def _start_engine(settings: "dict[str, Any]", folder: bytes) -> None:
    if settings["version"] != VERSION:
        raise RuntimeError("the run was launched by another version of taupy")
    if "t" in sys.abiflags:
        raise RuntimeError("a free-threaded build of Python cannot be measured")
    options = dict(settings["engine_options"])
    options["run_folder"] = folder
    options["wait_for_main"] = 1
    code = _code(sys.orig_argv)
    if code.startswith("from ") and _RESOURCES in code.split(";")[0]:
        return  # a helper of multiprocessing or loky, which only waits for the program's end
    if _is_launcher(sys.orig_argv):
        _leave(folder, settings["root_pid"])
        return
    options["helper"] = int(code.startswith("from multiprocessing.forkserver import"))
    options["early"] = tuple(settings["early"])
    options["root_pid"] = settings["root_pid"]
    if posix.getpid() == settings["root_pid"]:  # kept in memory only: it may hold secrets
        variables = posix.environ.items()
        options["storer_env"] = [name + b"=" + value for name, value in variables]
    options["ancestors"] = _ancestors(settings["root_pid"])
    options["quiet"] = int(settings["quiet"])
    if not options.pop("imports", False):
        options["library_folders"] = [f"{name}/" for name in settings["library_folders"]]
    options["own_libraries"] = [f"{name}/" for name in settings["library_folders"]]
    texts = {"-c": ["<string>"], "-": ["<stdin>"]}
    options["own_texts"] = texts.get(settings["arguments"][0], [])
    if settings["engine"] == "native":
        from taupy._native import engine as native

        package = __file__[: -len("instrument/boot.py")]
        if options.pop("nccl", 0):
            _record_nccl(native.__file__)
        if options.pop("gpu", 0):
            _measure_gpu(options, native.__file__)
        if settings["launches"]:
            options["rank"] = _rank()
        ours = ("instrument/", "__init__.py", "collectors/cupti_p", "state/container.py")
        options["our_files"] = [package + name for name in ours]
        native.start(options)
    else:
        from taupy.instrument import engine as plain

        options["process_start"] = _parent_and_start(posix.getpid())[1]
        plain.start(options)


def _rank() -> "bytes | None":
    """Which rank of a job this process is, as its variables say."""
    from taupy.instrument import rank_variables

    variables = posix.environ.items()
    texts = {name.decode("latin-1"): value.decode("latin-1") for name, value in variables}
    return rank_variables.note(texts).encode() or None


def _code(words: list[str]) -> str:
    """What the interpreter was given by -c; "" if it was given something else."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if not words[at].startswith("--") and words[at][-1:] == "c":
            return words[at + 1] if at + 1 < len(words) else ""
        at += 2 if words[at] in ("-W", "-X", "--check-hash-based-pycs") else 1
    return ""


def _is_launcher(words: list[str]) -> bool:
    """Whether it is a `taupy run` inside the program, or a command that runs programs so: what it
    runs is a trial of its own."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at][-1:] not in ("m", "c"):
        at += 2 if words[at] in ("-W", "-X", "--check-hash-based-pycs") else 1
    is_module = words[at : at + 1] != [] and words[at].startswith("-") and words[at][-1:] == "m"
    at += is_module
    name, command = (*words[at : at + 2], "", "")[:2]
    if name.rpartition("/")[2] != "taupy" or command not in ("run", "gate"):
        return False
    return _is_ours() if is_module else _ENTRY in _file(name)


def _is_ours() -> bool:
    """Whether `-m taupy` runs this package, and no module of that name in the folder that -m puts
    first, or on the path."""
    package = __file__[: -len("/instrument/boot.py")]
    here = () if sys.flags.safe_path else (posix.getcwd(),)
    for folder in (*here, *sys.path):
        for name in ("taupy", "taupy.py"):
            try:
                entry = posix.stat(f"{folder}/{name}")
            except OSError:
                continue
            ours = posix.stat(package)
            return (entry.st_dev, entry.st_ino) == (ours.st_dev, ours.st_ino)
    return True  # a finder knows it, as that of an editable installation


def _leave(folder: bytes, root: int) -> None:
    import time

    opened = open_run(folder.decode("utf-8", "surrogateescape"))
    try:
        descriptor = File(opened, f"{posix.getpid()}{ELSEWHERE}").create()
        posix.write(descriptor, b"%d " % time.monotonic_ns() + (_ancestors(root) or b""))
        posix.close(descriptor)
    except FileExistsError:
        pass
    finally:
        opened.close()


def _ancestors(root: int) -> "bytes | None":
    """Ids of the processes that this one descends from, from its parent up to the run's first: a
    child that a shell or launcher started is found by them."""
    pid, ids = posix.getpid(), []
    while pid not in (0, root):
        pid = _parent_and_start(pid)[0]
        ids.append(b"%d" % pid)
    return b" ".join(ids) or None


def _measure_gpu(options: "dict[str, object]", engine: str) -> None:
    """Tell the engine where the collector is; a variable inherited from a measured parent is not
    the program's own."""
    collector = "/cupti_python." if options.get("cupti_backend") == "python" else "/cupti."
    if options.get("gpu_counters"):
        collector = "/gpu_counters."
    path = engine.replace("/engine.", collector).encode("utf-8", "surrogateescape")
    try:
        posix.stat(path)
    except OSError:
        return  # it was not built; `taupy doctor` reports that
    options["gpu_collector"] = path
    os = sys.modules.get("os")
    for name in INJECTIONS:
        if posix.environ.get(name) == path:
            del posix.environ[name]
            if os is not None:
                os.environ._data.pop(name, None)


def _record_nccl(engine: str) -> None:
    """Set the variable that makes NCCL load our plug-in, in the C environment only: the program
    does not see it."""
    path = engine.replace("/engine.", "/nccl.").encode("utf-8", "surrogateescape")
    os = sys.modules.get("os")
    if posix.environ.get(NCCL) == path:  # set by a measured parent, not by the user
        del posix.environ[NCCL]
        if os is not None:
            os.environ._data.pop(NCCL, None)
    if NCCL in posix.environ:
        return  # the user has chosen another profiler for NCCL
    try:
        posix.stat(path)
    except OSError:
        return  # it was not built
    posix.putenv(NCCL, path)


def _count_subinterpreter(folder: Folder) -> None:
    """One byte for each in a file of this process, which is measured itself."""
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
    try:
        name = f"{posix.getpid()}{SUBINTERPRETERS}"
        descriptor = posix.open(name, flags, 0o600, dir_fd=folder.descriptor)
        posix.write(descriptor, b".")
        posix.close(descriptor)
    except BaseException:
        pass


def _note(folder: Folder, problem: str) -> None:
    try:
        descriptor = File(folder, f"{posix.getpid()}.problem").create()
        posix.write(descriptor, problem.encode("utf-8", "replace"))
        posix.close(descriptor)
    except BaseException:
        pass
