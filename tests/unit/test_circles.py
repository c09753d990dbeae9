"""Nothing imports, or includes, what imports it in turn: at its top, in a function, for types."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import taupy

ROOT = Path(taupy.__file__).parent
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def modules():
    """Name -> syntax tree of each module of taupy."""
    paths = {path.relative_to(ROOT.parent).with_suffix(""): path for path in ROOT.rglob("*.py")}
    return {
        ".".join(name.parts).removesuffix(".__init__"): ast.parse(path.read_text("utf-8"))
        for name, path in paths.items()
    }


def imported(tree, names):
    """The modules of taupy that a module imports: of `from package import module` the latter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (path if path in names else node.module for path in paths)


def circle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as problem:
        return problem.args[1]
    return None


@pytest.mark.slow  # and part of `make check`
def test_no_module_imports_what_imports_it():
    trees = modules()
    graph = {
        name: {other for other in imported(tree, trees) if other in trees and other != name}
        for name, tree in trees.items()
    }
    assert len(graph) > 300
    assert sum(map(len, graph.values())) > 1000
    assert circle(graph) is None


def test_no_header_includes_what_includes_it():
    headers = {path.name: path.read_text("utf-8") for path in (ROOT / "_native").glob("*.h")}
    graph = {name: set(INCLUDE.findall(text)) & headers.keys() for name, text in headers.items()}
    assert sum(map(len, graph.values())) > 20
    assert circle(graph) is None


def pairs(texts):
    """Name of a pair of source and header -> the other pairs whose headers it includes."""
    graph = {Path(name).stem: set() for name in texts}
    for name, text in texts.items():
        included = {Path(header).stem for header in INCLUDE.findall(text) if header in texts}
        graph[Path(name).stem] |= included - {Path(name).stem}
    return graph


def test_no_pair_of_source_and_header_uses_what_uses_it():
    paths = [path for path in (ROOT / "_native").iterdir() if path.suffix in (".c", ".h", ".cpp")]
    graph = pairs({path.name: path.read_text("utf-8") for path in paths})
    assert len(graph) > 80
    assert sum(map(len, graph.values())) > 200
    assert circle(graph) is None


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None
    sources = {"a.c": '#include "a.h"\n#include "b.h"', "a.h": "", "b.h": ""}
    assert circle(pairs({**sources, "b.c": '#include "a.h"'})) is not None
    assert circle(pairs({**sources, "b.c": '#include "b.h"'})) is None
