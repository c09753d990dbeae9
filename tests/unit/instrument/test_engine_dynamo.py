"""TorchDynamo is told to pass over the plain engine's code, in each version's own way."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path

import pytest

from taupy.instrument import engine, engine_dynamo

FRAMES = "torch._C._dynamo.eval_frame"
FUNCTION = 0x1 | 0x2  # CO_OPTIMIZED | CO_NEWLOCALS


@pytest.fixture
def frames(monkeypatch):
    """PyTorch's module, still empty."""
    module = types.ModuleType(FRAMES)
    monkeypatch.setitem(sys.modules, FRAMES, module)
    return module


def functions_in(code):
    """Qualified names of all functions in a code object."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    own = {each.co_qualname for each in inner if each.co_flags & FUNCTION == FUNCTION}
    return own.union(*map(functions_in, inner))


def as_run(path):
    """A module's code without what is only for type checkers."""
    tree = ast.parse(path.read_text())
    tree.body = [each for each in tree.body if not isinstance(each, ast.If)]
    return compile(tree, path, "exec")


def expected():
    folder = Path(engine.__file__).parent
    return {
        (path.name, name)
        for path in [*folder.glob("engine*.py"), folder / "selection.py"]
        for name in functions_in(as_run(path))
        # From Python 3.14 on, annotations are functions, too, which only type checkers would call.
        if name.rpartition(".")[2] not in ("<lambda>", "__annotate__")
    }


def test_nothing_is_done_until_pytorch_is_there(monkeypatch):
    monkeypatch.delitem(sys.modules, FRAMES, raising=False)
    assert not engine_dynamo.Dynamo({}).is_told()


def test_all_functions_of_the_engine_are_marked(frames):
    marked = []
    frames.skip_code = marked.append
    metadata = {}
    assert engine_dynamo.Dynamo(metadata).is_told()
    assert expected() <= {(Path(code.co_filename).name, code.co_qualname) for code in marked}
    assert metadata == {}


def test_newer_versions_take_a_strategy(frames):
    marked = []
    frames._FrameAction = types.SimpleNamespace(DEFAULT=0, SKIP=1)
    frames._FrameExecStrategy = lambda *actions: actions
    frames.set_code_exec_strategy = lambda code, strategy: marked.append((code, strategy))
    assert engine_dynamo.Dynamo({}).is_told()
    assert expected() <= {(Path(code.co_filename).name, code.co_qualname) for code, _ in marked}
    assert {strategy for _, strategy in marked} == {(1, 0)}


@pytest.mark.parametrize("sees_hooks", [True, False])
def test_a_version_that_cannot_be_told_is_named(frames, monkeypatch, sees_hooks):
    monkeypatch.setattr(engine_dynamo, "_SEES_HOOKS", sees_hooks)
    metadata = {}
    assert engine_dynamo.Dynamo(metadata).is_told()
    assert ("taupy.health.dynamo" in metadata) == sees_hooks
