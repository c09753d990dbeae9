"""The library that tells the engine of autograd's nodes: compiled once for each PyTorch, and kept.

It is made for the PyTorch that is installed beside this Python, as found without importing it, and
lies in the state folder. A new one is tried before it counts: in a process of its own it must name
the nodes of a small graph as PyTorch itself does. One that fails is not tried again.
"""

from __future__ import annotations

import os
import re
import sys

from taupy.state.folder import File, Folder, open_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SOURCE = os.path.join(
    os.path.dirname(os.path.dirname(__file__)), "_native", "autograd_library.cpp"
)
_COMPILERS = ("c++", "g++", "clang++")
_STANDARDS = ("c++20", "c++17")
"""The headers of PyTorch need the first from 2.11 on; compilers of the time of 2.1 lack it."""
_LIMIT_S = 300

# How libc10 mentions std::string: with the ABI of C++11, or of before.
_NEW_ABI, _OLD_ABI = b"torchCheckFailEPKcS2_jRKNSt7__cxx11", b"torchCheckFailEPKcS2_jRKSs"

_CHECK = """
import ctypes, sys
library, sys.path = sys.argv[1], sys.argv[2:]
import torch
begins = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_uint64)
number = ctypes.CFUNCTYPE(ctypes.c_uint64)
class Host(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("begins", begins),
                ("ends", ctypes.CFUNCTYPE(None)), ("sequence", number), ("thread", number)]
heard, ended = [], []
host = Host(1, begins(lambda *node: heard.append(node)),
            ctypes.CFUNCTYPE(None)(lambda: ended.append(1)))
begin = ctypes.CDLL(library).taupy_autograd_begin
begin.restype = ctypes.c_char_p
if problem := begin(ctypes.byref(host)):
    sys.exit(problem.decode())
first, here = host.sequence(), host.thread()
result = (torch.ones(3, requires_grad=True) * 2).exp().sum()
last = host.sequence()
node, wanted = result.grad_fn, []
while node is not None:
    number = node._sequence_nr()
    wanted.append((node.name().encode(), number if number < 2**63 else -1, here))
    node = node.next_functions[0][0] if node.next_functions else None
result.backward()
found = [(*node[:2], here if node[1] < 0 else node[2]) for node in heard]
numbers = [number for _, number, _ in wanted[:-1]]
if found != wanted or len(ended) != len(wanted) or numbers != [*range(first, last)][::-1]:
    sys.exit(f"it heard of {found} instead of {wanted}")
"""


class Torch:
    """An installed PyTorch: its version, and where its headers and libraries are."""

    def __init__(self, folder: str) -> None:
        with open(os.path.join(folder, "version.py"), encoding="utf-8", errors="replace") as file:
            version = re.search(r"^__version__ = '([\w.+]+)'", file.read(), re.MULTILINE)
        self.version = version[1] if version else "unknown"
        self.headers = os.path.join(folder, "include")
        self.libraries = os.path.join(folder, "lib")
        self.library = os.path.realpath(os.path.join(self.libraries, "libtorch_cpu.so"))

    def name(self) -> str:
        """What a library for it is called: another one for each build and place."""
        import zlib

        status = os.stat(self.library)
        with open(_SOURCE, "rb") as file:
            source = file.read()
        text = f"{self.library}\n{status.st_size}\n{status.st_mtime_ns}\n"
        return f"autograd-{self.version}-{zlib.crc32(source + text.encode()):08x}"

    def abi(self) -> str | None:
        """The value of _GLIBCXX_USE_CXX11_ABI that it was compiled with; None: unknown."""
        with open(os.path.join(self.libraries, "libc10.so"), "rb") as file:
            content = file.read()
        return "1" if _NEW_ABI in content else "0" if _OLD_ABI in content else None


class Unusable(Exception):
    """There is no library; the message says why."""


def installed(paths: Iterable[str]) -> Torch | None:
    """The PyTorch that a program of this Python would import; None: there is none."""
    for path in paths:
        folder = os.path.join(path, "torch")
        if os.path.isfile(os.path.join(folder, "lib", "libtorch_cpu.so")):
            try:
                return Torch(folder)
            except OSError:
                return None
    return None


def library(torch: Torch, state: str, tell: Callable[[str], None]) -> bytes:
    """The path of the library for this PyTorch, compiled now if it is not there yet.

    Args:
        state: the state folder.
        tell: is told before something takes long.

    Raises:
        Unusable: there is none, and none can be made.
    """
    try:
        with open_own(state) as folder:
            return _kept(folder, torch, tell)
    except OSError as problem:
        raise Unusable(str(problem)) from None


def _kept(folder: Folder, torch: Torch, tell: Callable[[str], None]) -> bytes:
    kept = folder / f"{torch.name()}.so"
    refused = kept.with_suffix(".refused")
    if refused.exists():
        raise Unusable(refused.read_record().decode("utf-8", "replace"))
    if not kept.exists():
        tell(f"compiling a library for backward passes by layer (once for PyTorch {torch.version})")
        try:
            _make(kept, torch)
        except _Refused as problem:
            refused.write_bytes(f"{problem} (remove {refused} to try again)".encode())
            raise
    kept.size()  # it is a file of ours, or refused
    return os.fsencode(str(kept))


class _Refused(Unusable):
    """It would be the same the next time."""


def _make(kept: File, torch: Torch) -> None:
    import shutil

    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise Unusable(f"no C++ compiler was found ({', '.join(_COMPILERS)})")
    if not os.path.isfile(os.path.join(torch.headers, "ATen", "record_function.h")):
        raise Unusable("the headers of PyTorch are not there")
    abi = torch.abi()
    if abi is None:
        raise _Refused("the ABI of PyTorch's libraries is not known")
    new = kept.with_suffix(f".{os.getpid()}")
    before = os.umask(0o077)
    try:
        _compile(compiler, str(new), torch, abi)
        _run(
            "the library failed its trial",
            [sys.executable, "-I", "-c", _CHECK, str(new), *sys.path],
        )
        new.rename(kept.name)
    finally:
        os.umask(before)
        new.unlink(missing_ok=True)


def _compile(compiler: str, target: str, torch: Torch, abi: str) -> None:
    import json

    for standard in _STANDARDS:
        command = [
            *(compiler, f"-std={standard}", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"),
            *(f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-DTAUPY_LIBTORCH={json.dumps(torch.library)}"),
            *("-I", torch.headers, _SOURCE, "-o", target),
            *("-L", torch.libraries, "-l:libtorch_cpu.so", "-l:libc10.so"),
        ]
        try:
            return _run("the library does not compile", command)
        except _Refused:
            if standard == _STANDARDS[-1]:
                raise


def _run(failure: str, command: Sequence[str]) -> None:
    """Raises: _Refused: the command failed; with the last line of what it said."""
    import subprocess

    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unusable(f"{failure}: {_LIMIT_S} s were not enough") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").splitlines()
        line = next((line for line in said if "error" in line), said[-1] if said else "no reason")
        raise _Refused(f"{failure}: {line.strip()[:300]}")
