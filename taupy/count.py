"""Run a program and count its known NumPy and PyTorch operations by their shapes.

    taupy run -m taupy.count SCRIPT [ARGUMENT ...]

For machines without hardware counters. Each operation adds its analytic flop and bytes
(`catalog/operations.py`) to the routine that called it, as user events that `taupy
roofline` understands and labels analytic. Counting takes time: `taupy roofline` takes it off
as well as it can, and `--timing PLAIN` takes the times of a plain run instead.

NumPy: operators and calls of known functions in the script and in modules beside it, whose
source is rewritten as it is loaded (`a @ b` becomes `matmul(a, b)` that counts); what
libraries do inside is not seen. PyTorch: all operators of the main thread, by a dispatch
mode. Unknown operations are not counted; their names are listed at the end.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import operator
import os
import sys
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

import taupy
from taupy import count_torch
from taupy.catalog import operations
from taupy.catalog.operations import FLOP_OF_FUNCTION, PRECISIONS, REDUCTIONS

_HELPER = "__taupy_count__"

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any], Callable[[Any, Any], Any]]]
_BINARY = {
    ast.Add: ("add", operator.add, operator.iadd),
    ast.Sub: ("subtract", operator.sub, operator.isub),
    ast.Mult: ("multiply", operator.mul, operator.imul),
    ast.Div: ("divide", operator.truediv, operator.itruediv),
    ast.Pow: ("power", operator.pow, operator.ipow),
    ast.MatMult: ("matmul", operator.matmul, operator.imatmul),
}
_PLAIN = {name: plain for name, plain, _ in _BINARY.values()}
_IN_PLACE = {name: in_place for name, _, in_place in _BINARY.values()}

_PRODUCTS = frozenset({"dot", "matmul", "vdot", "inner", "tensordot", "einsum", "outer"})
_MOVES = frozenset({"copy", "maximum", "minimum", "where", "concatenate", "zeros_like"})
_COUNTED_CALLS = _PRODUCTS | _MOVES | REDUCTIONS.keys() | FLOP_OF_FUNCTION.keys()
_NAMED_CALLS = frozenset(
    {"solve", "inv", "pinv", "det", "slogdet", "svd", "eig", "eigh", "eigvals", "eigvalsh", "qr"}
    | {"cholesky", "lstsq", "matrix_power", "multi_dot", "matvec", "vecmat", "vecdot", "expm"}
    | {"fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn"}
    | {"convolve", "correlate", "convolve2d", "fftconvolve", "lu_factor", "lu_solve", "spsolve"}
    | {"cov", "corrcoef", "kron", "cross", "interp", "polyfit", "polyval", "gradient", "diff"}
)
"""They do arithmetic, and we have no formula for it: their names are reported."""

_FIRST_PARTY: list[str] = []
_unknown: dict[str, int] = {}


# --- noting ------------------------------------------------------------------


def _note(work: operations.Work, element_type: str) -> None:
    metric = PRECISIONS.get(element_type)
    if metric is not None and work.flop:
        taupy.user_event(metric, "flop").sample(work.flop)
    if work.bytes:
        taupy.user_event("bytes_dram", "B").sample(work.bytes)
        if metric is not None and not work.flop:
            taupy.user_event(metric, "flop").sample(0.0)


def _array_type() -> Any:
    numpy = sys.modules.get("numpy")
    return getattr(numpy, "ndarray", None)


def _note_numpy(name: str, arguments: Sequence[Any], result: Any) -> None:
    """Count one operation on NumPy arrays; anything else is not ours."""
    kind = _array_type()
    if kind is None:
        return
    arrays = [argument for argument in arguments if isinstance(argument, kind)]
    if not arrays:
        return
    given = result if hasattr(result, "dtype") else arrays[0]
    element_type, itemsize = given.dtype.name, given.dtype.itemsize
    read = sum(array.size for array in arrays)
    produced = int(getattr(result, "size", 1))
    scale = operations.complex_factor(name) if element_type.startswith("complex") else 1.0
    if name in ("matmul", "dot") and len(arrays) == 2 and all(array.ndim for array in arrays):
        m, n, k, batch = operations.matmul_of_shapes(arrays[0].shape, arrays[1].shape)
        work = operations.matmul(m, n, k, itemsize, batch)
    elif name in _PRODUCTS:
        work = _product(name, arguments, arrays, produced, read, itemsize)
    elif name in REDUCTIONS:
        work = operations.reduction(read, produced, itemsize, REDUCTIONS[name])
    else:
        work = operations.elementwise(produced, read, itemsize, FLOP_OF_FUNCTION.get(name, 0.0))
    _note(operations.Work(work.flop * scale, work.bytes), element_type)


def _product(
    name: str,
    arguments: Sequence[Any],
    arrays: Sequence[Any],
    produced: int,
    read: int,
    itemsize: int,
) -> operations.Work:
    """Products that are not plain matrix products."""
    moved = float((read + produced) * itemsize)
    if name == "outer":
        return operations.Work(float(produced), moved)
    if name == "einsum" and isinstance(arguments[0], str) and "..." not in arguments[0]:
        letters = arguments[0].replace(" ", "").partition("->")[0].split(",")
        sizes = {
            letter: size
            for term, array in zip(letters, arrays, strict=False)
            for letter, size in zip(term, array.shape, strict=False)
        }
        total = 1.0
        for size in sizes.values():
            total *= size
        return operations.Work(total * max(len(arrays), 1), moved)
    # Each element of the result is a sum over what is contracted: read x read / made.
    product = 1.0
    for array in arrays:
        product *= array.size
    contracted = (product / max(produced, 1)) ** 0.5 if len(arrays) == 2 else 1.0
    return operations.Work(2.0 * produced * contracted, moved)


def binary(name: str, left: Any, right: Any) -> Any:
    """`left OP right`, counted if it is of arrays."""
    result = _PLAIN[name](left, right)
    _note_numpy(name, (left, right), result)
    return result


def in_place(name: str, left: Any, right: Any) -> Any:
    """`left OP= right`; returns what `left` is to be afterwards."""
    result = _IN_PLACE[name](left, right)
    _note_numpy(name, (left, right), result)
    return result


def in_place_item(name: str, holder: Any, key: Any, right: Any) -> None:
    """`holder[key] OP= right`."""
    holder[key] = in_place(name, holder[key], right)


def in_place_attribute(name: str, holder: Any, attribute: str, right: Any) -> None:
    """`holder.attribute OP= right`."""
    setattr(holder, attribute, in_place(name, getattr(holder, attribute), right))


def call(function: Any, *arguments: Any, **named: Any) -> Any:
    """`function(...)`, counted if it is NumPy's and known."""
    result = function(*arguments, **named)
    owner = getattr(function, "__self__", None)
    module = str(getattr(function, "__module__", "") or "")
    kind = _array_type()
    if kind is None:
        return result
    ufunc = getattr(sys.modules["numpy"], "ufunc", ())
    if isinstance(owner, kind):
        arguments = (owner, *arguments)
    elif not (isinstance(function, ufunc) or module.partition(".")[0] in ("numpy", "scipy")):
        return result
    name = getattr(function, "__name__", "")
    if name in _NAMED_CALLS:
        _unknown[name] = _unknown.get(name, 0) + 1
    elif name in _COUNTED_CALLS:
        _note_numpy(name, arguments, result)
    return result


# --- rewriting ---------------------------------------------------------------


class _Counted(ast.NodeTransformer):
    """Operators and calls of known functions, made to count; places stay what they were."""

    def _helper(self, name: str, *arguments: ast.expr) -> ast.Call:
        helper = ast.Attribute(ast.Name(_HELPER, ast.Load()), name, ast.Load())
        return ast.Call(helper, list(arguments), [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) not in _BINARY:
            return node
        name = ast.Constant(_BINARY[type(node.op)][0])
        return ast.copy_location(self._helper("binary", name, node.left, node.right), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) not in _BINARY:
            return node
        name = ast.Constant(_BINARY[type(node.op)][0])
        target = node.target
        statement: ast.stmt
        if isinstance(target, ast.Name):
            value = self._helper("in_place", name, ast.Name(target.id, ast.Load()), node.value)
            statement = ast.Assign([target], value)
        elif isinstance(target, ast.Subscript):
            statement = ast.Expr(
                self._helper("in_place_item", name, target.value, _index(target.slice), node.value)
            )
        else:
            attribute = ast.Constant(target.attr)
            statement = ast.Expr(
                self._helper("in_place_attribute", name, target.value, attribute, node.value)
            )
        return ast.copy_location(statement, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in _COUNTED_CALLS and name not in _NAMED_CALLS:
            return node
        helper = self._helper("call", function, *node.args)
        helper.keywords = node.keywords
        return ast.copy_location(helper, node)


def _index(index: ast.expr) -> ast.expr:
    """An index as an argument: slices become calls of `slice`."""
    if isinstance(index, ast.Slice):
        parts = [part or ast.Constant(None) for part in (index.lower, index.upper, index.step)]
        return ast.Call(ast.Name("slice", ast.Load()), parts, [])
    if isinstance(index, ast.Tuple):
        return ast.Tuple([_index(part) for part in index.elts], ast.Load())
    return index


def compiled(source: str | bytes, filename: str) -> CodeType:
    """The source as code that counts."""
    tree = ast.fix_missing_locations(_Counted().visit(ast.parse(source, filename)))
    code = compile(tree, filename, "exec", dont_inherit=True)
    return code


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the program, rewritten; nothing is cached on disk."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compiled(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_HELPER] = sys.modules[__name__]
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Modules in the program's own folders; and PyTorch, to be watched once it is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None:
            return None
        if name == "torch" and spec.loader is not None:
            _watch_torch(spec.loader)
            return spec
        own = any(os.path.realpath(spec.origin).startswith(part) for part in _FIRST_PARTY)
        if own and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
            return spec
        return None


# --- PyTorch -----------------------------------------------------------------


def _watch_torch(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        count_torch.watch(_note, _unknown)

    loader.exec_module = exec_module


# --- running -----------------------------------------------------------------


def main(arguments: Sequence[str]) -> None:
    """Run a script as `python SCRIPT ARGUMENT ...` would, counting."""
    if not arguments:
        sys.exit("usage: taupy run -m taupy.count SCRIPT [ARGUMENT ...]")
    script = arguments[0]
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as problem:
        sys.exit(f"taupy: {script} cannot be read: {problem.strerror}")
    folder = os.path.dirname(os.path.realpath(script))
    _FIRST_PARTY.append(os.path.join(folder, ""))
    sys.argv = list(arguments)
    sys.path[0] = folder  # as for `python SCRIPT`; `-m` had put the working folder there
    # Run as __main__, this module must be found under its own name as well.
    here = sys.modules[__name__]
    sys.meta_path.insert(0, _Finder())
    taupy.metadata("Counted Operations", "analytic, by shapes: NumPy of the program, PyTorch")
    taupy.metadata("Counted Program", os.path.basename(script))
    try:
        code = compiled(source, script)
        main_module = ModuleType("__main__")
        main_module.__dict__.update(__file__=script, __builtins__=__builtins__)
        main_module.__dict__[_HELPER] = here
        sys.modules["__main__"] = main_module
        exec(code, main_module.__dict__)
    finally:
        if _unknown:
            most = sorted(_unknown, key=lambda name: -_unknown[name])
            taupy.metadata("Operations Not Counted", ", ".join(most[:40]))


if __name__ == "__main__":
    # `python -m` gives this module a second name; the one that is imported does the work.
    from taupy.count import main as run

    sys.argv = sys.argv[1:]
    run(sys.argv)
