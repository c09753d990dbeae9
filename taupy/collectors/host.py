"""Facts of the machine and of the program, under the names that TAU and ParaProf use.

Read from /proc, `os.uname` and `git`; nothing here runs in the measured process. A fact
that this machine does not report is left out, never guessed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

from taupy.model.command_line import joined

GIT_TIMEOUT_S = 2.0

_ALLOWED = """
    CONDA_DEFAULT_ENV CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING
    CUDA_MODULE_LOADING CUDA_VISIBLE_DEVICES GOMP_CPU_AFFINITY KMP_AFFINITY KMP_BLOCKTIME
    LANG LC_ALL LOCAL_RANK LOCAL_WORLD_SIZE LSB_JOBID MALLOC_ARENA_MAX MKL_DYNAMIC
    MKL_ENABLE_INSTRUCTIONS MKL_NUM_THREADS MKL_THREADING_LAYER NUMEXPR_MAX_THREADS
    NUMEXPR_NUM_THREADS NUMBA_NUM_THREADS OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_RANK
    OMPI_COMM_WORLD_SIZE OMP_DISPLAY_ENV OMP_DYNAMIC OMP_NUM_THREADS OMP_PLACES
    OMP_PROC_BIND OMP_SCHEDULE OMP_WAIT_POLICY OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS
    PBS_JOBID PMI_RANK PMI_SIZE PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONMALLOC
    PYTHONOPTIMIZE PYTHONUNBUFFERED PYTHON_GIL RANK GROUP_RANK ROLE_RANK
    PYTORCH_CUDA_ALLOC_CONF SLURM_CPUS_PER_TASK SLURM_JOB_ID SLURM_JOB_NAME
    SLURM_JOB_NUM_NODES SLURM_JOB_PARTITION SLURM_LOCALID SLURM_NODEID SLURM_NTASKS
    SLURM_NTASKS_PER_NODE SLURM_PROCID SLURM_STEP_ID TF_NUM_INTEROP_THREADS
    TF_NUM_INTRAOP_THREADS TORCH_CUDNN_DETERMINISTIC TORCH_NUM_THREADS TZ
    VECLIB_MAXIMUM_THREADS WORLD_SIZE
"""
ENVIRONMENT_NAMES = frozenset(_ALLOWED.split())
"""Environment variables stored with a trial: settings that affect performance. All others may hold
secrets and are left out."""


def hostname() -> str:
    """This machine's name, as `uname -n` says it."""
    return os.uname().nodename


def host_metadata(proc: str | os.PathLike[str] = "/proc") -> dict[str, str]:
    """Facts of this machine and this interpreter; `proc` is given by tests."""
    system = os.uname()
    version, _, compiler = sys.version.partition("[")  # as `platform`, which takes longer
    facts = {
        "Hostname": system.nodename,
        "OS Name": system.sysname,
        "OS Release": system.release,
        "OS Version": system.version,
        "OS Machine": system.machine,
        "Python Version": version.split()[0],
        "Python Implementation": sys.implementation.name,
        "Python Compiler": compiler.rstrip("]"),
        "Python Executable": sys.executable,
    }
    if distribution := _distribution("/etc/os-release"):
        facts["OS Distribution"] = distribution
    facts.update(_cpu(_text(os.path.join(proc, "cpuinfo"))))
    if size := _field(_text(os.path.join(proc, "meminfo")), "MemTotal"):
        facts["Memory Size"] = size
    facts["CPU Cores"] = str(os.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        facts["CPU Cores Allowed"] = str(len(os.sched_getaffinity(0)))
    return facts


def program_metadata(
    argv: Sequence[str],
    cwd: str,
    path: str,
    started_at: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Facts of one run of a program.

    Args:
        argv: the command, its interpreter first.
        cwd: where it ran.
        path: the program's file or folder; its git commit is included if it has one.
        started_at: seconds since the epoch, if known.
        environ: of the program; only `ENVIRONMENT_NAMES` are taken from it.
    """
    facts = {"Command Line": joined(argv), "CWD": cwd}
    if argv:
        facts["Executable"] = argv[0]
    if started_at is not None:
        facts.update(time_metadata(started_at))
    facts.update(git_metadata(path))
    facts.update(environment_metadata(environ or {}))
    return facts


def time_metadata(started_at: float) -> dict[str, str]:
    """The start of a run in TAU's formats: microseconds, local time, UTC."""
    local, utc = time.localtime(started_at), time.gmtime(started_at)
    return {
        "Starting Timestamp": str(round(started_at * 1_000_000)),
        "Local Time": time.strftime("%Y-%m-%dT%H:%M:%S%z", local),
        "UTC Time": time.strftime("%Y-%m-%dT%H:%M:%SZ", utc),
    }


def environment_metadata(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that are on the allow-list, in order of their names."""
    return {name: environ[name] for name in sorted(ENVIRONMENT_NAMES & environ.keys())}


def git_metadata(path: str) -> dict[str, str]:
    """Commit, branch and dirtiness of the work tree that contains `path`.

    Empty if git is missing, there is no repository, or git takes longer than `GIT_TIMEOUT_S`.
    """
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    if not _is_work_tree(folder):
        return {}  # nothing to start git for
    filters = _git(
        folder, "config", "--null", "--name-only", "--get-regexp", r"^filter\.", may_fail=True
    )
    if filters is None:
        return {}
    answer = _git(
        folder, "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--no-renames",
        "--untracked-files=no", "--ignore-submodules=dirty", without=filters.split("\0"),
    )  # fmt: skip
    if answer is None:
        return {}
    lines = answer.splitlines()
    about = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = about.get("branch.oid", "("), about.get("branch.head", "(detached)")
    if commit.startswith("("):
        return {}  # there is no commit yet
    facts = {"Git Commit": commit}
    if branch != "(detached)":
        facts["Git Branch"] = branch
    facts["Git Dirty"] = "yes" if any(line[:1] not in ("#", "") for line in lines) else "no"
    return facts


def _is_work_tree(folder: str) -> bool:
    """Whether a folder or one above it has a repository."""
    if os.path.exists(os.path.join(folder, ".git")):
        return True
    above = os.path.realpath(folder)
    while above != (above := os.path.dirname(above)):
        if os.path.exists(os.path.join(above, ".git")):
            return True
    return False


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _field(text: str, name: str) -> str | None:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip()
    return None


def _cpu(cpuinfo: str) -> dict[str, str]:
    """The CPU's model: x86 names it, Arm gives only codes, Power and z use other fields."""
    facts = {}
    for fact, fields in (
        ("CPU Vendor", ("vendor_id", "CPU implementer")),
        ("CPU Type", ("model name", "cpu", "Processor", "CPU part")),
        ("CPU MHz", ("cpu MHz", "clock")),
        ("Cache Size", ("cache size",)),
    ):
        for field in fields:
            if value := _field(cpuinfo, field):
                facts[fact] = value
                break
    return facts


def _distribution(path: str) -> str | None:
    for line in _text(path).splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip("\"'")
    return None


_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "status.submoduleSummary": "false",
    "protocol.allow": "never",
}
"""Of a repository, these would make git run programs, or fetch."""


def _git(
    folder: str, *arguments: str, without: Sequence[str] = (), may_fail: bool = False
) -> str | None:
    """The answer of git; None if there is none.

    No settings of the repository make git run another program.

    Args:
        without: settings to be empty, such as `filter.lfs.clean`: git would run filters to compare
            files with the index.
        may_fail: git says that nothing was found by exit code 1.
    """
    import subprocess

    settings = {**_GIT_SETTINGS, **dict.fromkeys(filter(None, without), "")}
    settings |= {name: "false" for name in settings if name.endswith(".required")}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(settings)),
        "LC_ALL": "C",
    }
    for number, (name, value) in enumerate(settings.items()):
        environ[f"GIT_CONFIG_KEY_{number}"] = name
        environ[f"GIT_CONFIG_VALUE_{number}"] = value
    try:
        done = subprocess.run(
            ["git", "--no-pager", "-C", folder, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT_S,
            env=environ,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in ((0, 1) if may_fail else (0,)):
        return None
    return done.stdout.decode("utf-8", "surrogateescape")
