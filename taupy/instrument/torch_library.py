"""Libraries through which PyTorch reports its work: built by `taupy setup torch`, and kept.

One reports autograd's nodes to the engine, one collectives, one operators. They depend on the C++
interface of one PyTorch and cannot be shipped. They are built for the PyTorch installed for this
Python, which is found without importing it, and kept in the state folder. A library is tested in a
separate process: for a small example it must report the same as PyTorch itself.
"""

from __future__ import annotations

import os
import sys

from taupy.network import layers
from taupy.pattern import pattern
from taupy.state.folder import File, Folder, open_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Sequence

_SOURCES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_native")
_COMPILERS = ("c++", "g++", "clang++")
_STANDARDS = ("c++20", "c++17")
"""PyTorch's headers require the first from 2.11 on; compilers as old as PyTorch 2.1 lack it."""
_VERSION = pattern(r"(?m)^__version__ = '([\w.+]+)'")
_INCLUDED = pattern(rb'(?m)^#include "(\w+\.h)"')
_LIMIT_S = 300
_PATIENCE_S = 5.0

# Symbols of libc10 with std::string, in the C++11 ABI and in the older one.
_NEW_ABI, _OLD_ABI = b"torchCheckFailEPKcS2_jRKNSt7__cxx11", b"torchCheckFailEPKcS2_jRKSs"

_AUTOGRAD_CHECK = """
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

_COLLECTIVES_CHECK = """
import ctypes, sys, time
library, sys.path = sys.argv[1], sys.argv[2:]
import torch, torch.distributed as dist
begins = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
ends = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
class Host(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("begins", begins), ("ends", ends),
                ("thread", ctypes.CFUNCTYPE(ctypes.c_uint64)),
                ("group", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)),
                ("asked", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_int))]
heard, ended = [], []
def note(*operation):
    heard.append(operation)
    return len(heard)
host = Host(1, begins(note), ends(ended.append))
begin = ctypes.CDLL(library).taupy_collectives_begin
begin.restype = ctypes.c_char_p
if problem := begin(ctypes.byref(host)):
    sys.exit(problem.decode())
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group = host.group(b"0")
before = host.asked(group)
dist.all_reduce(torch.ones(10))
dist.barrier()
until = time.monotonic() + 10
while len(ended) < 2 and time.monotonic() < until:
    time.sleep(0.01)
wanted = [(b"gloo:all_reduce", host.thread(), 40), (b"gloo:barrier", host.thread(), 0)]
asked = host.asked(group) - before
dist.destroy_process_group()  # its threads must not call back while Python ends
if heard != wanted or ended != [1, 2] or asked != 2:
    sys.exit(f"it heard of {heard} instead of {wanted}")
"""


_OPERATORS_CHECK = """
import ctypes, sys
library, sys.path = sys.argv[1], sys.argv[2:]
import torch
computed = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)
class Open(ctypes.Structure):
    _fields_ = [("node", ctypes.c_void_p), ("generation", ctypes.c_uint64)]
class Inputs(ctypes.Structure):
    _fields_ = [("hash", ctypes.c_uint64), ("values", ctypes.c_void_p),
                ("text", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t))]
begins = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(Inputs),
                          ctypes.POINTER(Open))
ends = ctypes.CFUNCTYPE(None, ctypes.POINTER(Open))
class Tensor(ctypes.Structure):
    _fields_ = [("dimensions", ctypes.c_int32), ("item_bytes", ctypes.c_int32),
                ("kind", ctypes.c_int32), ("is_number", ctypes.c_int32),
                ("number", ctypes.c_double), ("sizes", ctypes.c_int64 * 8),
                ("items", ctypes.c_int64)]
class Host(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("begins", begins), ("ends", ends),
                ("computed", computed), ("record", ctypes.CFUNCTYPE(None, ctypes.c_int)),
                ("count", ctypes.CFUNCTYPE(None, ctypes.c_int)),
                ("tensor", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object,
                                            ctypes.POINTER(Tensor)))]
heard, recorded, inputs = [], [], []
def begin_one(name, given, open):
    recorded.append(name)
    text = ctypes.create_string_buffer(99)
    given.contents.text(given.contents.values, text, 99)
    inputs.append((name[6:], text.value, given.contents.hash))
    open.contents.node = len(recorded)
    return name != b"aten::t"
def end_one(open):
    recorded.append(open.contents.node)
host = Host(5, begins(begin_one), ends(end_one), computed(lambda *each: heard.append(each)))
begin = ctypes.CDLL(library).taupy_operators_begin
begin.restype = ctypes.c_char_p
if problem := begin(ctypes.byref(host)):
    sys.exit(problem.decode())
weight, rows = torch.nn.Parameter(torch.ones(4, 3)), torch.ones(2, 5, 3)
matrix = rows[0]
host.record(1)
matrix.neg()
matrix.t()  # not recorded, so its end, that of the third, is not reported
if recorded[:3] != [b"aten::neg", 1, b"aten::t"] or 3 in recorded:
    sys.exit(f"it reported {recorded}")
matrix.neg()
rows.neg()
torch.cat([matrix, matrix], 1)
negated = [each[1:] for each in inputs if each[0] == b"neg"]
if [text for text, _ in negated] != [b"float32[5x3]", b"float32[5x3]", b"float32[2x5x3]"] or len(
    {number for _, number in negated}) != 2 or (b"cat", b"([5x3] [5x3])") not in [
    each[:2] for each in inputs
]:
    sys.exit(f"it reported {inputs}")
host.count(1)
torch.nn.functional.linear(rows, weight).sum().backward()
host.count(0)
rows @ rows.mT
flop = sum(each for _, each in heard if each >= 0)
heard_before, heard = heard, []
host.count(1)
torch.func.vmap(lambda row: torch.nn.functional.linear(row, weight.detach()))(torch.ones(7, 3))
host.count(0)
inside = sum(each for _, each in heard if each >= 0)
if inside != 168 or any(each < 0 for name, each in heard if name == b"aten::addmm"):
    sys.exit(f"it heard of {heard} in a call that is mapped over a batch")
heard = heard_before
found = Tensor()
shape = host.tensor(weight, ctypes.byref(found)) and [*found.sizes[:found.dimensions]]
if flop != 480 or shape != [4, 3] or found.items * found.item_bytes != 48 or b"aten::sum" not in [
    name for name, each in heard if each < 0
]:
    sys.exit(f"it heard of {heard} and {shape}")
if host.tensor(object(), ctypes.byref(found)):
    sys.exit("it takes anything for a tensor")
def seen(tensor):
    host.tensor(tensor, ctypes.byref(found))
    return found.kind, found.number if found.is_number else None
expected = [(2, None), (2, 1.5), (2, 2.5), (1, 7), (0, None), (2, None)]
shared = torch.frombuffer(bytearray(4), dtype=torch.float32)
numbers = [rows, torch.tensor(1.5).double(), torch.tensor([2.5]).bfloat16(), torch.tensor(7),
           torch.tensor(True), shared]
if (read := [seen(each) for each in numbers]) != expected:
    sys.exit(f"it read {read}")
"""


class Kind:
    """A kind of library.

    Attributes:
        name: its source is `_native/NAME_library.cpp`.
        what: its purpose, for messages.
        check: a program that tests it, with its path as an argument.
        header: a header of PyTorch that it requires.
        fact: the name of the trial's metadata that describes it.
        done, undone: how the metadata begins if the library exists, and if it does not.
        needs_python: whether it needs Python's headers and PyTorch's library for Python.
    """

    def __init__(
        self,
        name: str,
        what: str,
        check: str,
        header: str,
        fact: tuple[str, str, str],
        *,
        needs_python: bool = False,
    ) -> None:
        self.name = name
        self.source = os.path.join(_SOURCES, f"{name}_library.cpp")
        self.what = what
        self.check = check
        self.header = header
        self.fact, self.done, self.undone = fact
        self.needs_python = needs_python


AUTOGRAD = Kind(
    "autograd",
    "backward passes by layer",
    _AUTOGRAD_CHECK,
    "ATen/record_function.h",
    (layers.AUTOGRAD, layers.BY_LAYER, layers.ONE_PHASE),
)
COLLECTIVES = Kind(
    "collectives",
    "collectives",
    _COLLECTIVES_CHECK,
    "torch/csrc/distributed/c10d/GroupRegistry.hpp",
    (layers.COLLECTIVES, layers.RECORDED, layers.NOT_RECORDED),
)
OPERATORS = Kind(
    "operators",
    "operators, and shapes and operations of layers",
    _OPERATORS_CHECK,
    "torch/csrc/autograd/python_variable.h",
    (layers.OPERATORS, layers.COUNTED, layers.NOT_KNOWN),
    needs_python=True,
)
KINDS = (AUTOGRAD, OPERATORS, COLLECTIVES)


class Torch:
    """An installed PyTorch: its version, and where its headers and libraries are."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(os.path.join(folder, "version.py"), encoding="utf-8", errors="replace") as file:
            version = _VERSION.search(file.read())
        self.version = version[1] if version else "unknown"
        self.headers = os.path.join(folder, "include")
        self.libraries = os.path.join(folder, "lib")
        self.library = os.path.realpath(os.path.join(self.libraries, "libtorch_cpu.so"))

    def name(self, kind: Kind) -> str:
        """The name of a library for this PyTorch, different for each build and folder."""
        import zlib

        status = os.stat(self.library)
        text = f"{self.library}\n{status.st_size}\n{status.st_mtime_ns}\n"
        text += sys.version if kind.needs_python else ""
        number = zlib.crc32(_with_headers(kind.source) + text.encode())
        return f"{kind.name}-{self.version}-{number:08x}"

    def abi(self) -> str | None:
        """The value of _GLIBCXX_USE_CXX11_ABI that it was compiled with; None: unknown."""
        with open(os.path.join(self.libraries, "libc10.so"), "rb") as file:
            content = file.read()
        return "1" if _NEW_ABI in content else "0" if _OLD_ABI in content else None


def _with_headers(source: str) -> bytes:
    """A source file's text, and that of the headers beside it that it includes."""
    folder = os.path.dirname(source)
    with open(source, "rb") as file:
        text = file.read()
    for header in _INCLUDED.findall(text):
        with open(os.path.join(folder, os.fsdecode(header)), "rb") as file:
            text += file.read()
    return text


class Unusable(Exception):
    """There is no library; the message says why."""


def installed(paths: Iterable[str]) -> Torch | None:
    """The PyTorch that a program of this Python would import; None if it is not installed."""
    for path in paths:
        folder = os.path.join(path, "torch")
        if os.path.isfile(os.path.join(folder, "lib", "libtorch_cpu.so")):
            try:
                return Torch(folder)
            except OSError:
                return None
    return None


def kept(kind: Kind, torch: Torch, state: str) -> tuple[str, bytes]:
    """The path and content of the library for this PyTorch in a state folder.

    Raises:
        Unusable: it was not built, or is not a file of this user.
    """
    try:
        with open_own(state) as folder:
            file = file_of(kind, torch, folder)
            return str(file), file.read_bytes()
    except FileNotFoundError:
        raise Unusable(layers.not_built(torch.version)) from None
    except OSError as problem:
        raise Unusable(str(problem)) from None


def build(kind: Kind, torch: Torch, state: Folder) -> File:
    """Build the library, and keep it once it has passed its test.

    Raises:
        Unusable: it cannot be built, or fails its test.
        OSError: the state folder has no room for it.
    """
    compiler = _compiler(kind, torch)
    abi = torch.abi()
    if abi is None:
        raise Unusable("the ABI of PyTorch's libraries is not known")
    file = file_of(kind, torch, state)
    new = file.with_suffix(f".{os.getpid()}")
    before = os.umask(0o077)
    try:
        _compile(compiler, str(new), kind, torch, abi)
        check(kind, torch, new)
        new.rename(file.name)
    finally:
        os.umask(before)
        new.unlink(missing_ok=True)
    return file


def check(kind: Kind, torch: Torch, file: File) -> None:
    """Test a library in a process that imports PyTorch.

    Raises:
        Unusable: it does not report what PyTorch does.
    """
    paths = [os.path.dirname(torch.folder), *sys.path]  # another one may be installed, too
    _run(
        "the library failed its test",
        [sys.executable, "-I", "-c", kind.check, str(file), *paths],
    )


def file_of(kind: Kind, torch: Torch, state: Folder) -> File:
    """Where the library is kept, if it was built."""
    return state / f"{torch.name(kind)}.so"


def _compiler(kind: Kind, torch: Torch) -> str:
    """The first compiler found, provided that everything else is installed, too."""
    import shutil

    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise Unusable(f"no C++ compiler was found ({', '.join(_COMPILERS)})")
    if not os.path.isfile(os.path.join(torch.headers, kind.header)):
        raise Unusable("the headers of PyTorch are missing")
    if kind.needs_python and not os.path.isfile(os.path.join(_python_headers(), "Python.h")):
        raise Unusable("the headers of Python are missing")
    return compiler


def _python_headers() -> str:
    import sysconfig

    return sysconfig.get_path("include")


def _compile(compiler: str, target: str, kind: Kind, torch: Torch, abi: str) -> None:
    import json

    python = ("-I", _python_headers(), "-l:libtorch_python.so") if kind.needs_python else ()
    for standard in _STANDARDS:
        command = [
            *(compiler, f"-std={standard}", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"),
            "-DNDEBUG",  # like PyTorch itself; otherwise its structures differ
            *(f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-DTAUPY_LIBTORCH={json.dumps(torch.library)}"),
            *("-I", torch.headers, kind.source, "-o", target),
            *("-L", torch.libraries, "-l:libtorch_cpu.so", "-l:libc10.so", *python),
        ]
        try:
            return _run("the library does not compile", command)
        except Unusable:
            if standard == _STANDARDS[-1]:
                raise


def _run(failure: str, command: Sequence[str]) -> None:
    """Run a command, with those that it starts: if it is given up, all of them end.

    Raises:
        Unusable: it failed; the message contains the last line of its output.
    """
    import subprocess

    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=null, stdout=null, stderr=pipe, process_group=0
    ) as process:
        try:
            errors = process.communicate(timeout=_LIMIT_S)[1]
        except subprocess.TimeoutExpired:
            _end(process)
            raise Unusable(f"{failure}: it took longer than {_LIMIT_S} s") from None
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        lines = errors.decode("utf-8", "replace").splitlines()
        line = next(
            (line for line in lines if "error" in line), lines[-1] if lines else "no reason"
        )
        raise Unusable(f"{failure}: {line.strip()[:300]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and those that it started; a compiler removes its own files meanwhile."""
    import signal
    import subprocess
    from contextlib import suppress

    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
        os.killpg(process.pid, signal.SIGKILL)
