"""Names say what they hold: words that say nothing are no identifiers in taupy/."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "taupy"
EMPTY = frozenset({"each", "found", "known", "made", "one", "there"})


def _names(tree: ast.AST) -> Iterator[str | None]:
    """All names that a module assigns, defines, takes as parameters, imports or reads."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.keyword(arg=name):
                yield name
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name
            case ast.MatchMapping(rest=name):
                yield name


def _empty_names(source: str) -> set[str]:
    return EMPTY.intersection(_names(ast.parse(source)))


def test_no_name_in_the_package_says_nothing():
    empty = {
        str(module.relative_to(PACKAGE)): _empty_names(module.read_text("utf-8"))
        for module in PACKAGE.rglob("*.py")
    }
    assert {module: names for module, names in empty.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for one in rows: pass",
        "[each for each in rows]",
        "if (made := f()): pass",
        "def f(known): pass",
        "def there(): pass",
        "async def there(): pass",
        "class one: pass",
        "lambda each: 0",
        "f(known=1)",
        "self.found = 1",
        "try: pass\nexcept OSError as found: pass",
        "match x:\n case [1, *one]: pass",
        "match x:\n case {'a': 1, **there}: pass",
        "match x:\n case int() as made: pass",
        "import a as known",
        "from a import found",
    ],
)
def test_such_a_name_is_seen_wherever_it_is_bound(source):
    assert len(_empty_names(source)) == 1


def test_longer_names_and_texts_may_contain_these_words():
    assert _empty_names("is_known = 'found'; one_routine = '''each'''") == set()
