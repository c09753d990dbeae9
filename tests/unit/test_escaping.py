"""One module escapes untrusted text, and there is no way around it."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import pty
import re
import termios
from pathlib import Path

import pytest

from taupy import errors, escaping
from tests.hostile import EVIL, UNSAFE, Tags

ROOT = Path(escaping.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))


# --- the functions -----------------------------------------------------------


def test_control_characters_are_shown_as_escapes():
    evil = "x\x1b[31m\n\t\u202eevil\x9b\u2028\ud800\uffff"
    assert escaping.visible(evil) == r"x\x1b[31m\n\t\u202eevil\x9b\u2028\ud800\uffff"
    assert (
        escaping.visible("café ∑ naïve\xa0\u3000\U000e0041") == "café ∑ naïve\xa0\u3000\\U000e0041"
    )


def test_what_is_escaped_already_stays_as_it_is():
    assert escaping.visible(escaping.visible(EVIL)) == escaping.visible(EVIL)


def test_complete_lines_keep_their_ends_and_our_colors_only():
    line = "\x1b[1;31mred\x1b[0m \x1b[2J\x1b]0;x\x07\n"
    assert escaping.guarded(line) == "\\x1b[1;31mred\\x1b[0m \\x1b[2J\\x1b]0;x\\x07\n"
    assert escaping.guarded(line, colored=True) == "\x1b[1;31mred\x1b[0m \\x1b[2J\\x1b]0;x\\x07\n"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-c", "'-c"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\\t=1"),
        (' "=1', "' \"=1"),
        ("\uff1d1", "'\uff1d1"),  # full width: some spreadsheets take it for `=`
        ("a;=1", "a;'=1"),  # `;` parts cells where the comma is a decimal point
        ("operator|=", "operator|="),
        ("a => b", "a => b"),
    ],
)
def test_a_spreadsheet_sees_no_formula(text, cell):
    assert escaping.csv_cell(text) == cell


def test_markup_is_text_on_a_page():
    page = f'<p title="{escaping.html(EVIL)}">{escaping.html(EVIL)}</p>'
    tags = Tags(page)
    assert tags.elements == ["p"]
    assert [name for name, _ in tags.attributes] == ["title"]


def test_the_policy_of_a_page_names_its_own_scripts_by_hash():
    # printf 'alert(1)' | openssl sha256 -binary | base64
    policy = escaping.content_security_policy(["alert(1)"])
    assert "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='" in policy
    assert "script-src" not in escaping.content_security_policy()
    assert "default-src 'none'" in policy


def test_json_keeps_its_value():
    encoded = json.dumps(EVIL, ensure_ascii=False)
    assert json.loads(escaping.json_visible(encoded)) == EVIL
    assert not UNSAFE.search(escaping.json_visible(encoded))


def test_every_error_escapes_what_it_quotes():
    for name in dir(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.TaupyError):
            assert str(kind(f"no '{EVIL}'")) == f"no '{escaping.visible(EVIL)}'"


def test_a_row_of_csv_survives_a_spreadsheet_and_a_program():
    out = io.StringIO()
    csv.writer(out).writerow([escaping.csv_cell(EVIL)])
    ((cell,),) = csv.reader(io.StringIO(out.getvalue()))
    assert cell.startswith("'=cmd")


# --- no way around it --------------------------------------------------------

_WRITERS = {
    "commands/messages.py": "lines beside the answer, escaped there",
    "commands/clean.py": "paths, escaped there",
    "commands/start.py": "names of trials, escaped there",
    "commands/setup.py": "what it has built of its own: versions and paths",
    "magic.py": "why a piece is not measured, escaped there",
    "__main__.py": "a line of its own, before modules are there to write it",
    "instrument/annotate.py": "one line, with the words of the user's own command line",
    "commands/completion.py": "a script for shells without any text of a trial",
    "commands/export.py": "the file of another tool, to standard output",
    "pprof/terminal.py": "answers, guarded there",
    "pprof/pager.py": "what terminal.py has guarded",
}
"""Who writes to the terminal, and why that is safe."""


def _calls(path: Path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


@pytest.mark.slow  # and part of `make check`
def test_only_the_guarded_modules_write_to_the_terminal():
    found = set()
    for path in SOURCES:
        for call, name in _calls(path):
            if name == "print" or re.search(r"\bstd(out|err)\b(\.buffer)?\.write", name):
                found.add(str(path.relative_to(ROOT)))
            if name == "os.write" and ast.unparse(call.args[0]) in ("1", "2"):
                found.add(str(path.relative_to(ROOT)))
    assert found - {"commands/export.py", "pprof/pager.py"} <= set(_WRITERS)


def test_nobody_else_escapes():
    own = {"escaping.py"}
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        source = path.read_text("utf-8")
        imports = re.findall(r"^\s*(?:from html import|import html|from xml\.sax)", source, re.M)
        assert name in own or not imports, f"{name} escapes markup by itself"
        assert name in own or "unicode_escape" not in source, f"{name} escapes by itself"


def test_every_page_has_a_policy():
    pages = [path for path in SOURCES if "<body>" in path.read_text("utf-8")]
    names = {str(path.relative_to(ROOT)) for path in pages}
    assert names == {"report/page.py", "serve/look.py", "serve/plugin.py"}
    for path in pages:
        source = path.read_text("utf-8")
        if path.parent.name == "serve":  # without scripts, and with one head
            assert "<script" not in source
            assert re.search(r"<head>(\{HEAD\}|\{\{ taupy_head \}\})<title>", source)
        else:
            assert "page_head(" in source and "<head>" not in source, path
    look = (ROOT / "serve" / "look.py").read_text("utf-8")
    assert "Content-Security-Policy" in look.partition('HEAD = """')[2].partition('"""')[0]
    assert escaping.content_security_policy(["x()"]) in escaping.page_head("t", "", ["x()"])
    assert "<title>&lt;b&gt;</title>" in escaping.page_head("<b>", "")


def test_columns_says_how_wide_text_for_people_is_but_cuts_no_pipe(monkeypatch):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 61))
    with open(theirs, "w") as window, open(os.devnull, "w") as elsewhere:
        monkeypatch.setenv("COLUMNS", "")
        assert [escaping.columns(window), escaping.columns(window, piped=200)] == [61, 61]
        assert [escaping.columns(elsewhere), escaping.columns(elsewhere, piped=200)] == [80, 200]
        monkeypatch.setenv("COLUMNS", "48")
        assert [escaping.columns(window), escaping.columns(window, piped=200)] == [48, 48]
        assert [escaping.columns(elsewhere), escaping.columns(elsewhere, piped=200)] == [48, 200]
        monkeypatch.setenv("COLUMNS", "0")
        assert [escaping.columns(window), escaping.columns(None)] == [61, 80]
    assert [escaping.columns(window), escaping.columns(window, piped=0)] == [80, 0]  # it is closed
    os.close(ours)


def test_no_other_module_asks_for_the_width_of_a_terminal():
    asks = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if re.search(r"\"COLUMNS\"|get_terminal_size\(.*\)\.columns", path.read_text())
    }
    assert asks == {"escaping.py"}
