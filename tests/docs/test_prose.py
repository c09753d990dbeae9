"""The words: phrases that came up wrongly stay out of docs, messages and docstrings, and names
that say nothing out of the code.

Each phrase is a regular expression with the wording to use instead. Pages are checked without
their code, modules by their string literals and docstrings. When a phrase comes up that reads
wrongly, mend it and add it here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")])
ROOMS = ("taupy", "benchmarks", "examples", "scripts")
MODULES = sorted(module for room in ROOMS for module in (ROOT / room).rglob("*.py"))

PHRASES = {
    r"(?<!there )\bis no (?:number|count|percentage|text|list|table|call|tracer|program)\b": (
        "is not a number, is not a list ..."
    ),
    r"\bare no (?:phases|calls|timers|numbers)\b": "are not phases ...",
    r"\bhow-many-th\b": "index of, position of",
    r"\baloud\b": "with a message",
    r"\bin words\b": "with a clear message",
    r"\bdear\b": "expensive",
    r"\bcannot go below p\b": "the smallest achievable p-value is",
    r"\bheld against\b": "compared with",
    r"\bhold (?:trials|the two|them) against\b": "compare",
    r"\bstands? (?:in|on|at|beside|under|behind) (?:the|a|an|its|their|each|every|other)\b": (
        "is in, is listed under, depends on"
    ),
    r"\b(?:runs?|row|line|point|trial|path|side|value|thread|process|launch) a "
    r"(?:side|trial|row|thread|process|pass|point|launch|call path)\b": "per side, per thread ...",
    r"\bfive a side\b": "five per side",
    r"\ba (?:side|trial) each\b": "one side per argument",
    r"\b(?:is|are) told of\b": "is notified of, is known from",
    r"\bof ours\b": "taupy's, our",
    r"\b(?:driver|GPU|CUPTI) (?:of our own making|that (?:play|is played))\b": "simulated",
    r"\bnobody (?:counted|saw|had stored)\b": "not counted, not seen",
    r"\bwhat nobody\b": "what was not",
    r"\bleast that they can be\b": "lower bounds",
    r"\bby itself where\b": "automatically if",
    r"\bnot so in\b": "except in, unlike in",
    r"\bits expression is none\b": "its expression is invalid",
    r"\bwith (?:its|their) stamps\b": "with start and end times",
    r"\bat most can\b|\bcan do at most\b": "peak, limit",
    r"\bside by side with no\b": "without",
    r"\bgoes? on (?:in|when|with) the\b": "continues",
    r"\btwice is once\b": "merging is idempotent",
    r"\bis believed\b|\bare believed\b|\bcan be believed\b": "is reliable, is trusted",
    r"\bsaid on the screen\b": "reported on screen",
    r"\bmade anew\b": "created again",
    r"\bworked out from shapes\b": "derived from shapes",
    r"\bof (?:TAU's|torch's|Chrome's) (?:slides|authors) of\b": "TAU's 2017 slides",
    r"\bto be told\b": "to be reported",
    r"\btells? all\b": "describes, see",
    r"\b(?:of|for) whoever\b|\bwhoever (?:reads|gets|shows|delivers|misspelled)\b": (
        "the caller, the reader, the process that"
    ),
    r"\bnobody (?:knows|needs|looks|says)\b": "is unknown, is not used",
    r"\b(?:is|be) (?:an?|the) ?none\b|\bthat is none\b": "is missing",
    r"\bas none is\b": "because there is none",
    r"\bno telling\b": "cannot tell",
    r"\b(?:not|cannot|could not) (?:to )?be had\b": "is not available, cannot be read",
    r"\bnot as (?:they|it) should be\b": "is invalid",
    r"\bthat cannot be(?=[\"':]|\W*$)": "impossible",
    r"\bby the clock\b": "in elapsed time",
    r"\bas ever\b": "as always, as usual",
    r"\bput into the program\b": "added to the program",
    r"\b(?:tells?|told) of\b": "reports, describes",
    r"\b(?:found|had) no room\b": "did not fit, ran out of space",
    r"\b(?:hangs?|hung) under\b": "is placed under, is listed under",
    r"\b(?:Read|Written|Shown) (?:are|is)\b": "taupy reads, export writes",
    r"\bsomebody\b": "another tool, another process",
    r"(?<!there )\bis no (?:part|run|sum|unit|metric|import|growth)\b": "is not a part ...",
    r"\bwhat there is\b": "the available ones",
    r"\banew\b": "again",
    r"\b(?:is|are) played\b": "simulated",
    r"\beach \d+(?:\.\d+)? m?s\b": "every 10 ms",
}


def _spoken(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _page_text(page: Path) -> str:
    """A page without its code blocks and code spans."""
    lines = [line for line in page.read_text("utf-8").splitlines() if not line.startswith("    ")]
    text = re.sub(r"```.*?```", "", "\n".join(lines), flags=re.DOTALL)
    return _spoken(re.sub(r"`[^`\n]*`", "`code`", text))


def _strings(module: Path) -> Iterator[str]:
    """All string literals of a module, docstrings among them; f-strings with their gaps."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield _spoken(
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in node.values
                )
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _spoken(node.value)


def _wrong(text: str) -> list[tuple[str, str]]:
    return [
        (match.group(), better)
        for pattern, better in PHRASES.items()
        for match in re.finditer(pattern, text)
    ]


def _findings(path: Path) -> list[tuple[str, str]]:
    texts = [_page_text(path)] if path.suffix == ".md" else _strings(path)
    return [finding for text in texts for finding in _wrong(text)]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_pages_are_free_of_phrases_that_came_up_wrongly(page):
    assert _findings(page) == []


@pytest.mark.slow  # and part of `make check`
def test_messages_and_docstrings_are_free_of_phrases_that_came_up_wrongly():
    findings = {_name(path): _findings(path) for path in MODULES}
    assert {name: wrong for name, wrong in findings.items() if wrong} == {}


def test_the_check_finds_what_it_looks_for():
    assert _wrong("'x' is no number, and the rest stands in the trial") == [
        ("is no number", "is not a number, is not a list ..."),
        ("stands in the", "is in, is listed under, depends on"),
    ]
    assert _wrong("'x' is not a number, and the trial has the rest") == []


# --- names --------------------------------------------------------------------

# Rooms whose names are not mended yet.
NOT_YET = ()
EMPTY = frozenset(
    {"asked", "believed", "each", "found", "known", "made", "one", "said", "there", "told"}
)


def _identifiers(tree: ast.AST) -> Iterator[str | None]:
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
    return EMPTY.intersection(_identifiers(ast.parse(source)))


@pytest.mark.slow  # and part of `make check`
def test_no_name_outside_the_tests_says_nothing():
    empty = {_name(module): _empty_names(module.read_text("utf-8")) for module in MODULES}
    left = {
        module: names for module, names in empty.items() if names and not module.startswith(NOT_YET)
    }
    assert left == {}


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
