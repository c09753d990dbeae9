"""Launch a program under measurement: exec the real interpreter on the real target.

The program then runs exactly as under plain `python`, in this same process. An environment
variable makes the interpreter start the measurement while it runs `site`.
"""

from __future__ import annotations

import os
import site
import sys
import time

from taupy.instrument.runfolder import (
    RunSettings,
    boot_id,
    masking_of,
    process_start,
    spill_prefix,
    write_settings,
)
from taupy.model import command_line
from taupy.state.folder import VARIABLE, Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PTH = "taupy_boot.pth"

# Bootstrap of the storer: an isolated interpreter with this one's import path, so that it need not
# run `site`, which takes a third of its start. If the program has set a limit on the size of files,
# it writes no bytecode, which might be truncated. taupy is imported first, from where this process
# has it: another one may be installed.
_STORER = (
    "import gc, os, resource, sys;"
    "gc.disable();"  # short-lived with many rows, like other commands
    "sys.dont_write_bytecode |= resource.getrlimit(resource.RLIMIT_FSIZE)[0] != -1;"
    "sys.path.extend(p for p in {paths!r} if p not in sys.path);"
    "sys.path.insert(0, {home!r}); import taupy; del sys.path[0];"
    "from taupy import importing; importing.begin();"
    "from taupy.commands.storer import store;"
    "os._exit(store(*sys.argv[1:]))"  # every file is closed: the interpreter need not clean up
)


def interpreter_command() -> list[str]:
    """How this interpreter was started, up to its options."""
    return [sys.orig_argv[0] or sys.executable, *interpreter_options()]


def interpreter_options() -> list[str]:
    """The options this interpreter was started with, such as -O or -Xdev, word by word."""
    return command_line.split(sys.orig_argv[1:])[0]


def settings_here(program_folder: str, cwd: str, **settings: Any) -> RunSettings:
    """Settings of a run whose root is this very process.

    Args:
        settings: the others, by the names of RunSettings.
    """
    packages = _package_folders()
    programs = {"", cwd, program_folder} - packages  # a program may lie among the packages
    return RunSettings(
        cwd=cwd,
        module_path=[path for path in sys.path if path not in programs],
        library_folders=library_folders(program_folder),
        program_folder=program_folder,
        launched_at=time.time(),
        root_pid=os.getpid(),
        root_start=process_start(os.getpid()),
        boot_id=boot_id(),
        host=os.uname().nodename,
        **settings,
    )


def library_folders(program_folder: str = "") -> list[str]:
    """Folders of installed packages, then of the standard library, longest first.

    Args:
        program_folder: what lies around it is the program's, whatever is installed there.
    """
    packages = _package_folders()
    packages |= {
        folder
        for folder in {*sys.path} - packages
        if folder and _has_packages(folder) and not _is_within(program_folder, folder)
    }
    standard = _standard_folders()
    both = {os.path.realpath(folder) for folder in packages | standard} | packages | standard
    return sorted(both, key=len, reverse=True)


def _package_folders() -> set[str]:
    """The folders from which `site` lets this interpreter import."""
    packages = set(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        packages.add(site.getusersitepackages())
    return packages


def _has_packages(folder: str) -> bool:
    """Whether an installer has put packages into a folder, such as `pip install --target`."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


def _is_within(program_folder: str, folder: str) -> bool:
    """Whether a program lies in a folder, other than the console script of a package there."""
    program, real = os.path.realpath(program_folder) + "/", os.path.realpath(folder)
    return program.startswith(f"{real}/") and program != f"{real}/bin/"


def _standard_folders() -> set[str]:
    """The folders according to `sysconfig`, which is slow: it reads the build's configuration."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    folders = {os.path.join(prefix, sys.platlibdir, version) for prefix in prefixes}
    folders.add(os.path.dirname(os.__file__))
    return folders | {os.path.join(folder, "lib-dynload") for folder in folders}


def package_folder() -> str:
    """The folder that `import taupy` finds this package in."""
    return os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def is_free_threaded() -> bool:
    """Whether this interpreter is built without the GIL. (The GIL may be on nevertheless.)"""
    return "t" in sys.abiflags


def is_boot_installed(options: list[str]) -> bool:
    """Whether an interpreter with these options processes our .pth."""
    letters = "".join(option[1:] for option in options if option[:1] == "-" != option[1:2])
    if "S" in letters:
        return False
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE and not ("s" in letters or "I" in letters):
        folders.append(site.getusersitepackages())
    return any(os.path.exists(os.path.join(folder, PTH)) for folder in folders)


def storer_command(folder: Folder, paths: list[str]) -> list[bytes]:
    """The command that stores a run when its program has ended."""
    code = _STORER.format(paths=paths, home=os.path.abspath(package_folder()))
    return [os.fsencode(part) for part in (sys.executable, "-I", "-S", "-c", code, folder.path)]


def fallback_folder() -> str:
    """A folder with a `sitecustomize` that does the same as the .pth."""
    return os.path.join(os.path.dirname(__file__), "_site")


def execute(folder: Folder, settings: RunSettings) -> NoReturn:
    """Become the program. Does not return.

    Raises:
        OSError: the interpreter could not be executed.
    """
    environment = dict(os.environ)
    environment.pop(VARIABLE, None)
    options = settings.engine_options
    options["storer_argv"] = storer_command(folder, settings.module_path)
    options["spill_prefix"] = os.fsencode(spill_prefix(settings))
    if settings.engine == "native":
        from taupy._native import engine

        options["rights"] = engine.rights()
    command = [*settings.interpreter, *settings.arguments]
    masking = masking_of(folder, settings)
    settings.arguments = masking.words(settings.arguments)
    settings.metadata = masking.facts(settings.metadata)
    write_settings(folder, settings)
    environment[VARIABLE] = f"{folder.path}/.{os.urandom(16).hex()}"
    if not is_boot_installed(settings.interpreter[1:]):
        before = environment.get("PYTHONPATH")
        environment["TAUPY_PYTHONPATH"] = "" if before is None else ":" + before
        environment["PYTHONPATH"] = fallback_folder() + (":" + before if before else "")
    _become(command, environment)


def execute_unmeasured(arguments: list[str]) -> NoReturn:
    """As `execute`, without a measurement."""
    _become([*interpreter_command(), *arguments], {**os.environ})


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # the program may be started with closed descriptors
            stream.flush()
    os.execve(sys.executable, command, environment)
