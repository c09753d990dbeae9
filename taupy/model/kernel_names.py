"""The names of kernels: fully demangled, and short enough to read.

`demangled` uses the C++ runtime's demangler. `short_name` keeps only the
qualified name: no return type, template arguments, parameters, qualifiers or
anonymous namespaces. Launch configurations, and grouping kernels by name, are
left to others.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import subprocess

    from taupy.model.profile import Timer

KERNEL_GROUPS: Final = frozenset({"GPU_KERNEL", "TAU_GPU_KERNEL"})

LONGEST_MANGLED: Final = 1 << 16
"""Longer names are left as they are: no compiler emits them."""

LONGEST_DEMANGLED: Final = 1 << 20
"""Limit in bytes: a mangled name can refer to its own parts, so it can expand without bound."""

REFERENCES_AT_MOST: Final = 14
"""Each back-reference may double the text. This many are harmless; for names with more, the
demangler runs in a separate process."""

SECONDS_AT_MOST: Final = 3.0
FAILURES_AT_MOST: Final = 3
"""After this many failures of that process, names with more back-references stay mangled."""

_APART = """
import ctypes, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
demangle.restype = ctypes.c_void_p
demangle.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
free = ctypes.CDLL(None).free
free.argtypes = [ctypes.c_void_p]
for line in sys.stdin.buffer:
    pointer = demangle(line[:-1], None, None, None)
    text = ctypes.string_at(pointer) if pointer else b""
    free(pointer)
    sys.stdout.buffer.write((text if len(text) <= int(sys.argv[1]) else b"") + b"\\n")
    sys.stdout.buffer.flush()
"""

_MANGLED = re.compile(r"[\w$.]+", re.ASCII)
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
_OPERATOR = re.compile(
    r"operator\s*(?:\(\)|\[\]|<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>|(?:new|delete)\s*(?:\[\])?(?!\w)"
    r"|co_await(?!\w)|\"\"\s*\w+|&&|\|\||\+\+|--|[-+*/%^&|=!]=|[-+*/%^&|~!=,])"
)
_WORD = re.compile(r"\w+")
_QUALIFIERS = re.compile(r"(?:\s*(?:const|volatile|noexcept|&&?)(?!\w)|\[abi:\w+\])+")
_LAMBDA_NUMBER = re.compile(r"(?:#|instance )(\d+)\)?[}\]]\Z")
_ANONYMOUS: Final = {"(anonymous namespace)", "(anonymous)", "<unnamed>", "{anonymous}"}
_HALF_ANONYMOUS = re.compile(r"(?<![<\w])unnamed>(?=::)")  # as Nsight Compute on Windows writes it
_CLOSING: Final = {"(": ")", "<": ">", "[": "]", "{": "}"}


def is_kernel(groups: str) -> bool:
    """Whether a timer with these groups, joined by `|`, is a kernel."""
    return not KERNEL_GROUPS.isdisjoint(groups.split("|"))


def demangled(name: str) -> str:
    """The demangled C++ name; `name` itself if it is not mangled or cannot be demangled."""
    if not name.startswith("_Z") or len(name) > LONGEST_MANGLED or "\0" in name:
        return name
    demangle = _demangler()
    return (demangle(name) if demangle else None) or name


def short_name(demangled: str) -> str:
    """The qualified name alone: `void ns::f<int>(float*)` is `ns::f`.

    A lambda keeps its number (`ns::f::{lambda#1}::operator()`). A name that is not a C++ name
    (`ampere_sgemm_128x64_tn`, `Memcpy HtoD (Pageable -> Device)`) stays as it is.
    Runs in time linear in the length of the name, whatever it contains.
    """
    demangled = _HALF_ANONYMOUS.sub("<unnamed>", demangled)
    closing = _closing_brackets(demangled)
    kept: list[str] = []
    at, end = 0, len(demangled)
    after_space = False
    in_conversion = False
    while at < end:
        character = demangled[at]
        if character == "o" and (operator := _operator_at(demangled, at)):
            symbol = operator[len("operator") :].strip()
            kept.append("operator " + symbol if symbol[0].isalpha() else "operator" + symbol)
            at += len(operator)
        elif character.isalnum() or character == "_":
            word = _WORD.match(demangled, at)
            assert word is not None
            kept.append(word[0])
            at = word.end()
            if word[0] == "operator":
                in_conversion = True
        elif character in "(<[{":
            if character == "(" and at + 1 < end and demangled[at + 1] in "*&" and after_space:
                kept.clear()  # it returns a function pointer: its own name is inside
                at += 2
                after_space = False
                continue
            stop = closing.get(at, end - 1) + 1
            group = demangled[at:stop]
            if group in _ANONYMOUS:
                if after_space and not in_conversion:
                    kept.clear()  # what was kept is the return type
                at = stop + 2 if demangled.startswith("::", stop) else stop
            elif character == "(" and kept and kept[-1] in {"decltype", "__typeof__", "typeof"}:
                at = stop
            elif character == "(":
                if after_space and not in_conversion:
                    return demangled
                in_conversion = False
                qualifiers = _QUALIFIERS.match(demangled, stop)
                at = qualifiers.end() if qualifiers else stop
                if not demangled.startswith("::", at):
                    break
            elif "lambda" in group[1:8]:
                number = _LAMBDA_NUMBER.search(group, max(0, len(group) - 24))
                kept.append(f"{{lambda#{number[1]}}}" if number else "{lambda}")
                at = stop
            else:
                if character == "{":
                    kept.append(group)
                elif character == "[" and not group.startswith("[abi:"):
                    return demangled if not kept else "".join(kept)
                at = stop
        elif character == ")":
            break
        elif character == " ":
            at += 1
            if in_conversion:
                if kept:
                    kept.append(" ")
            elif at < end and (demangled[at] not in "<([" or demangled.startswith("<unnamed>", at)):
                kept.clear()
            elif at < end and demangled[at] == "(":
                after_space = True
                continue
        else:
            kept.append(character)
            at += 1
        after_space = False
    return "".join(kept).strip() or demangled


def template_arguments(demangled: str) -> str:
    """The text in the brackets after the name itself: `int, 4` of `void f<int, 4>(float*)`."""
    own = short_name(demangled).rpartition("::")[2]
    start = demangled.find(own + "<") + len(own)
    end = _closing_brackets(demangled).get(start) if own and start >= len(own) else None
    return "" if end is None else demangled[start + 1 : end]


def told_apart(names: Iterable[str]) -> dict[str, str]:
    """Demangled name -> short name, with template arguments where short names collide."""
    by_short: dict[str, set[str]] = {}
    for name in names:
        by_short.setdefault(short_name(name), set()).add(name)
    shown = {}
    for short, full_names in by_short.items():
        for name in full_names:
            arguments = template_arguments(name) if len(full_names) > 1 else ""
            shown[name] = f"{short}<{arguments}>" if arguments else short
    return shown


def _operator_at(name: str, at: int) -> str | None:
    """The operator at this position, `operator()` or `operator<<`; None for `operator bool`."""
    if at and (name[at - 1].isalnum() or name[at - 1] == "_"):
        return None
    match = _OPERATOR.match(name, at)
    return match[0] if match else None


def _closing_brackets(name: str) -> dict[int, int]:
    """Where each matched bracket closes, ignoring brackets in operators and comparisons."""
    closing: dict[int, int] = {}
    open_brackets: list[int] = []
    at = 0
    while at < len(name):
        character = name[at]
        if character == "o" and (operator := _operator_at(name, at)):
            at += len(operator)
            continue
        if character in "([{" or (character == "<" and not _compares(name, at)):
            open_brackets.append(at)
        elif character in ")]}":
            # A `<` still open inside the brackets was a comparison.
            while open_brackets and _CLOSING[name[open_brackets[-1]]] != character:
                if name[open_brackets[-1]] != "<":
                    break
                open_brackets.pop()
            if open_brackets and _CLOSING[name[open_brackets[-1]]] == character:
                closing[open_brackets.pop()] = at
        elif (
            character == ">"
            and open_brackets
            and name[open_brackets[-1]] == "<"
            and name[at - 1] != "-"
        ):
            closing[open_brackets.pop()] = at
        at += 1
    return closing


def _compares(name: str, at: int) -> bool:
    return name[at - 1 : at] == ")" or name[at + 1 : at + 2] in {"=", " "}


@functools.cache
def _demangler() -> Callable[[str], str | None] | None:
    plain = plain_demangler()
    if plain is None:
        return None
    apart = ApartDemangler()

    def call(name: str) -> str | None:
        if not _MANGLED.fullmatch(name):
            return None
        return (plain if len(_REFERENCE.findall(name)) <= REFERENCES_AT_MOST else apart)(name)

    return call


def plain_demangler() -> Callable[[str], str | None] | None:
    """The C++ runtime's demangler, in this process; None if missing. It cannot be interrupted."""
    import ctypes
    import ctypes.util

    for library in (None, "libstdc++.so.6", "libc++abi.so.1", ctypes.util.find_library("stdc++")):
        try:
            demangle = ctypes.CDLL(library).__cxa_demangle
            free = ctypes.CDLL(None).free
        except (OSError, AttributeError):
            continue
        demangle.restype = ctypes.c_void_p
        demangle.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        return functools.partial(_call_demangler, demangle, free)
    return None


def _call_demangler(demangle: Any, free: Any, name: str) -> str | None:
    import ctypes

    pointer = demangle(name.encode("ascii"), None, None, None)
    if not pointer:
        return None
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        free(pointer)


class ApartDemangler:
    """The demangler in a separate process, whose crash or time-out does not affect this one.

    Used for the few names with so many back-references that they might expand without
    bound; nearly all of them are CUTLASS's. Each takes some 20 us once the process has started.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0

    def __call__(self, name: str) -> str | None:
        import select

        if self._failures >= FAILURES_AT_MOST:
            return None
        process = self._process or self._start()
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            process.stdin.write(name.encode("ascii") + b"\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], SECONDS_AT_MOST)
            answer = process.stdout.readline() if ready else b""
        except OSError:
            answer = b""
        if not answer:
            self._stop()
            return None
        return answer[:-1].decode("utf-8", "replace") or None

    def _start(self) -> subprocess.Popen[bytes] | None:
        import atexit
        import subprocess
        import sys

        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _APART, str(LONGEST_DEMANGLED)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            self._failures = FAILURES_AT_MOST
            return None
        atexit.register(self._end)
        return self._process

    def _stop(self) -> None:
        self._failures += 1
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def kernel_timer(name: str) -> Timer:
    """The timer of a kernel by its name, mangled or not."""
    from taupy.model.profile import Timer

    full = demangled(name)
    short = short_name(full)
    return Timer(full, groups=("GPU_KERNEL",), short=short if short != full else None)
