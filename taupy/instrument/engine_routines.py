"""The routines of the plain-Python engine: code objects, C functions and timers, numbered.

A routine is identified by file, qualified name and first line; several code objects may share
these. The engine identifies code objects by their address, which a weak reference removes from its
tables when the object is freed. Names of C functions are found without running any of the program's
code: no attribute of its objects and classes is looked up through their own `__getattribute__`.

Runs inside the measured process: built-in modules only.
"""

import _weakref
import sys

# The program may replace built-in functions; these stay what they are.
from builtins import (  # noqa: UP029
    compile,
    dict,
    id,
    issubclass,
    len,
    list,
    range,
    staticmethod,
    str,
    super,
    type,
)

from taupy.instrument.engine_imports import Imports
from taupy.instrument.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType
    from typing import Any

NOT_RECORDED = -1  # excluded or throttled: its time counts for its caller
OURS = -2  # the in-code API and this engine: ignored
FIRST_PHASE_METHOD = -16  # this and below: begins or ends a phase, see engine_phases.py
PHASE_ENTER, PHASE_EXIT, IMPORT = 1, 2, 3
_PHASE_FILE = "torch/autograd/profiler.py"
_FIND_AND_LOAD = ("_find_and_load", "<frozen importlib._bootstrap>")
_PHASE_METHODS = {
    "record_function.__enter__": PHASE_ENTER,
    "record_function.__exit__": PHASE_EXIT,
}
RETURNS = (compile("x", "", "eval").co_code[-2], compile("pass", "", "exec").co_code[-2])
"""The instructions that return; a routine whose last instruction is another one has raised."""
RESUMABLE = 0x20 | 0x80 | 0x200  # CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_RESUME = compile("0", "", "eval").co_code[0]
_HEAP_TYPE = 1 << 9

_builtin = type(len)
_module = type(sys)
_mro_of = type.__dict__["__mro__"].__get__
_dict_of = type.__dict__["__dict__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
_module_of = type.__dict__["__module__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_HOME = __file__.rpartition("/")[0]
_PACKAGE = _HOME.rpartition("/")[0]
_OURS = (_HOME + "/", _PACKAGE + "/__init__.py", _PACKAGE + "/_native/", _PACKAGE + "/state/")
_c_attributes = (
    type(list.append),
    type(list.__len__),
    type(dict.__dict__["fromkeys"]),
    _builtin,
    staticmethod,
)


def is_ours(file: str) -> bool:
    """Whether this is a file of taupy that runs in measured processes."""
    return file.startswith(_OURS)


def start_offset(code: "CodeType") -> int:
    """Where in the bytecode the body begins; a generator that is resumed is past it."""
    instructions = code.co_code
    for at in range(0, len(instructions), 2):
        if instructions[at] == _RESUME and instructions[at + 1] == 0:
            return at
    return 0


class _CodeReference(_weakref.ref):  # type: ignore[type-arg]
    """A weak reference that knows the address it stands for."""

    __slots__ = ("address",)
    address: int

    def __new__(cls, code: "CodeType", forget: "Any") -> "_CodeReference":
        reference = super().__new__(cls, code, forget)
        reference.address = id(code)
        return reference

    def __init__(self, code: "CodeType", forget: "Any") -> None:
        super().__init__(code, forget)  # type: ignore[call-arg]


class Routines:
    """The routines of this process.

    Attributes:
        of_code: id of a code object -> number of its routine, or NOT_RECORDED, or OURS.
        start_of: id of a code object of a generator or coroutine -> `start_offset`.
        records: number -> [name, file, line, kind, group, throttled].
        phase_methods: FIRST_PHASE_METHOD - value in `of_code` -> (PHASE_ENTER, PHASE_EXIT or
            IMPORT, number of the routine).
        imports: what decides which row an import has.
        on_new_code: called for each new code object.
    """

    def __init__(
        self, selection: "Selection | None", library_folders: "Sequence[str]" = ()
    ) -> None:
        self.of_code: dict[int, int] = {}
        self.start_of: dict[int, int] = {}
        self.records: list[list[Any]] = []
        self.phase_methods: list[tuple[int, int]] = []
        self.calls: list[int] = []  # calls of each routine, for throttling
        self.took_ns: list[int] = []
        self._selection = selection
        self._codes: dict[int, _CodeReference] = {}
        self._disabled = False
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._c_names: dict[tuple[int, str], str] = {}
        self.on_new_code: Any = lambda: None
        self.imports = Imports(self, library_folders) if library_folders else None

    def add_code(self, code: "CodeType", frame: "FrameType") -> int:
        """Add a new code object; returns its number."""
        self.on_new_code()
        file, name, line = code.co_filename, code.co_qualname, code.co_firstlineno
        if is_ours(file):
            number = OURS
        elif self._disabled:
            number = NOT_RECORDED
        else:
            number = self._number(("python", name, file, line), "PYTHON", frame)
        if method := self._phase_method(name, file, number):
            self.phase_methods.append((method, number))
            number = FIRST_PHASE_METHOD + 1 - len(self.phase_methods)
        if code.co_flags & RESUMABLE:
            self.start_of[id(code)] = start_offset(code)
        self._codes[id(code)] = _CodeReference(code, self._forget)
        self.of_code[id(code)] = number
        return number

    def _phase_method(self, name: str, file: str, number: int) -> int:
        """Which of the known phase methods this is; 0: none of them."""
        if (name, file) == _FIND_AND_LOAD:
            return IMPORT if self.imports is not None and number >= 0 else 0
        if name in _PHASE_METHODS and ("/" + file).endswith("/" + _PHASE_FILE):
            return _PHASE_METHODS[name]
        return 0

    def _forget(self, reference: "_CodeReference") -> None:
        """A code object has been freed."""
        if self._codes.get(reference.address) is reference:
            del self._codes[reference.address]
            self.of_code.pop(reference.address, None)
            self.start_of.pop(reference.address, None)

    def of_c_function(self, function: object, frame: "FrameType") -> int:
        """The number of a C function."""
        key = ("c", self.name_of_c_function(function), None, None)
        number = self._numbers.get(key)
        return self._number(key, "PYTHON_C", frame) if number is None else number

    def of_timer(self, name: str, group: str) -> int:
        """The number of a timer or phase of the in-code API."""
        key = ("timer", name, None, group)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._add("timer", name, None, None, group)
        return number

    def _number(self, key: "tuple[Any, ...]", group: str, frame: "FrameType") -> int:
        number = self._numbers.get(key)
        if number is None:
            kind, name, file, line = key
            if kind == "c":
                module = name.rpartition(".")[0]
            else:
                module = dict.get(frame.f_globals, "__name__")
            if self._selection is not None and not self._selection.selected(
                name, file, line, module if type(module) is str else ""
            ):
                number = NOT_RECORDED
            else:
                number = self._add(kind, name, file, line, group)
            self._numbers[key] = number
        return number

    def _add(self, kind: str, name: str, file: "str | None", line: "int | None", group: str) -> int:
        self.records.append([name, file, line, kind, group, False])
        self.calls.append(0)
        self.took_ns.append(0)
        return len(self.records) - 1

    def enable(self, enabled: bool) -> None:
        """Start or stop recording Python routines."""
        if enabled is self._disabled:
            self._disabled = not enabled
            self.of_code.clear()  # code objects are looked up again

    def throttle(self, number: int) -> None:
        """From now on the routine's calls are not recorded."""
        self.records[number][5] = True
        for key, timer in self._numbers.items():
            if timer == number:
                self._numbers[key] = NOT_RECORDED
        for code_id, timer in self.of_code.items():
            if timer == number:
                self.of_code[code_id] = NOT_RECORDED

    def name_of_c_function(self, function: "Any") -> str:
        """`builtins.len`, `list.append`, `numpy.ndarray.sum`: where it is defined."""
        if not issubclass(type(function), _builtin):
            return _class_name(type(function))
        name: str = function.__name__
        owner = function.__self__
        kind = type(owner)
        if owner is None or kind is _module or _module in _mro_of(kind):
            module = function.__module__
            return f"{module}.{name}" if type(module) is str else name
        if type in _mro_of(kind):
            kind = owner  # a class method
        if _flags_of(kind) & _HEAP_TYPE:
            return _defining_class(kind, name)  # not cached, because the class may be freed
        class_name = self._c_names.get((id(kind), name))
        if class_name is None:
            class_name = self._c_names[id(kind), name] = _defining_class(kind, name)
        return class_name


def _defining_class(kind: type, name: str) -> str:
    for base in _mro_of(kind):
        if type(_dict_of(base).get(name)) in _c_attributes:
            return f"{_class_name(base)}.{name}"
    return f"{_class_name(kind)}.{name}"


def _class_name(kind: type) -> str:
    module, name = _module_of(kind), _qualname_of(kind)
    return name if module == "builtins" or type(module) is not str else f"{module}.{name}"
