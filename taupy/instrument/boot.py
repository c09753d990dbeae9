"""Inside the program's interpreter: start the engine, then get out of sight.

Called by `taupy_boot.pth` while `site` runs, before the program. Nothing but built-in
modules is imported, and afterwards no module, variable or file of ours is to be seen. A
measurement that cannot start leaves a line in the run folder and never harms the program.
(No `from __future__` here: that would be an import.)
"""

import marshal
import posix
import sys

VARIABLE = "TAUPY_BOOT"
"""Names the run folder. It stays in the C environment, so that child processes inherit
it, and is taken out of `os.environ`, so that the program does not see it."""

INJECTIONS = (b"CUDA_INJECTION64_PATH", b"NVTX_INJECTION64_PATH")
"""Name the library that the CUDA driver loads at the first cuInit, and NVTX at the first
range: our GPU collector. Like the variable above they stay in the C environment only."""


def boot() -> None:
    """Start what the run folder's settings ask for."""
    folder = posix.environ.pop(VARIABLE.encode(), None)
    modules = sys.modules
    if folder is None or b"\0" in folder:
        return
    os = modules.get("os")
    if os is not None:
        os.environ._data.pop(VARIABLE.encode(), None)
    bytecode = sys.dont_write_bytecode
    try:
        sys.dont_write_bytecode = True
        _start(folder)
    except BaseException as problem:  # the program must start whatever happens here
        _note(folder, problem)
    finally:
        sys.dont_write_bytecode = bytecode
    package = __file__[: -len("instrument/boot.py")]
    for path in [path for path in sys.path_importer_cache if (path + "/").startswith(package)]:
        del sys.path_importer_cache[path]
    running = "_taupy_engine" in modules  # the plain engine lives in its modules
    ours = [name for name in modules if name == "taupy" or name.startswith("taupy.")]
    for module in [modules.pop(name) for name in ours]:
        if not running:
            module.__dict__.clear()  # cycles would keep it on the heap; this one's, too


def _start(folder: bytes) -> None:
    try:
        descriptor = posix.open(folder + b"/run", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return  # the run is over; this is a late child of it
    try:
        settings = marshal.loads(posix.read(descriptor, 1 << 24))
    finally:
        posix.close(descriptor)
    if settings["version"] != 1:
        raise RuntimeError("the run was launched by another version of taupy")
    options = dict(settings["engine_options"])
    options["run_folder"] = folder
    options["wait_for_main"] = 1
    code = " ".join(sys.orig_argv)
    if "resource_tracker import main" in code:
        return  # multiprocessing's or loky's, not the program's: it waits for the program's end
    options["helper"] = int("from multiprocessing.forkserver import" in code)
    options["early"] = tuple(settings["early"])
    options["root_pid"] = settings["root_pid"]
    options["ancestors"] = _ancestors(settings["root_pid"])
    options["quiet"] = int(settings["quiet"])
    if settings["engine"] == "native":
        from taupy._native import engine as native

        package = __file__[: -len("instrument/boot.py")]
        if options.pop("gpu", 0):
            _measure_gpu(options, native.__file__)
        ours = ("instrument/", "__init__.py", "collectors/cupti_p")
        options["our_files"] = [package + name for name in ours]
        native.start(options)
    else:
        from taupy.instrument import engine as plain

        plain.start(options)
        sys.modules["_taupy_engine"] = plain  # for the in-code API to find


def _ancestors(root: int) -> "bytes | None":
    """Ids of the processes that this one descends from, its parent first, up to the run's first:
    whoever looks for a child that a shell or launcher has started finds it by them."""
    pid, ids = posix.getpid(), []
    while pid not in (0, root):
        try:
            descriptor = posix.open(f"/proc/{pid}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError:
            break
        try:
            text = posix.read(descriptor, 1024)
        finally:
            posix.close(descriptor)
        pid = int(text[text.rindex(b")") + 2 :].split()[1])  # the name may hold blanks
        ids.append(b"%d" % pid)
    return b" ".join(ids) or None


def _measure_gpu(options: "dict[str, object]", engine: str) -> None:
    """Name the collector to the engine; a parent's mention of it is not the program's."""
    collector = "/cupti_python." if options.get("cupti_backend") == "python" else "/cupti."
    if options.get("gpu_counters"):
        collector = "/gpu_counters."
    path = engine.replace("/engine.", collector).encode("utf-8", "surrogateescape")
    try:
        posix.stat(path)
    except OSError:
        return  # it was not built: `taupy doctor` says so
    options["gpu_collector"] = path
    os = sys.modules.get("os")
    for name in INJECTIONS:
        if posix.environ.get(name) == path:
            del posix.environ[name]
            if os is not None:
                os.environ._data.pop(name, None)


def _note(folder: bytes, problem: BaseException) -> None:
    try:
        path = folder + b"/%d.problem" % posix.getpid()
        descriptor = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        posix.write(descriptor, f"{type(problem).__name__}: {problem}".encode("utf-8", "replace"))
        posix.close(descriptor)
    except BaseException:
        pass
