"""A trial whose every text attacks its reader, through every command and every form of output."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import sqlite3
import threading
from array import array

import pytest

import taupy
from taupy import commands
from taupy.escaping import visible
from taupy.formats import registry
from taupy.model.profile import Profile, Timer
from taupy.profiledb.ceilings import add_ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, gpu_profile, host, profile_of, small_profile, steps
from tests.hostile import EVIL, UNSAFE, Tags, attacking, hostile
from tests.unit.profiledb.test_stamped import spanned
from tests.unit.roofline.build import EPYC, Kernel, gpu_trial

FORMS = ("text", "csv", "json", "markdown")

# What each command is given, {db} being the database; None where another test has its outputs.
# Nothing to show: foreign files that are none, trials without samples of memory and of threads,
# trials without collectives.
REFUSED = (
    "import",
    "merge",
    "memory",
    "ranks",
    "waiting",
    "static",
    "setup",
    "store",
    "push",
    "pull",
)
ARGUMENTS: dict[str, list[list[str]] | None] = {
    "run": None,
    "pprof": [["2"], ["1"], ["1", "--metric", f"{EVIL}metric"], ["1", "--callers", "g"]],
    "kernel": [["gemm", "--trial", "2"], ["{evil}", "--trial", "2"]],
    "kernels": [["2"], ["2", "--by", "routine"], ["2", "--kernel", "{evil}"], ["2", "--activity"]],
    "layers": [["6"], ["6", "--by", "type"], ["1"], ["{evil}"]],
    "phases": [["6"], ["2"], ["{evil}"]],
    "steps": [["6"], ["6", "--all"], ["1"], ["{evil}"]],
    "ranks": [["6"], ["2"], ["6", "--by", "step"], ["6", "--by", "collective"], ["{evil}"]],
    "memory": [["1"], ["6", "--by", "layer"], ["{evil}"]],
    "lines": [["1"], ["{evil}"]],
    "places": [["1"], ["2"], ["6", "--all"], ["{evil}"]],
    "report": [["1"], ["2"], ["6"], ["{evil}"]],
    "waiting": [["1"], ["{evil}"]],
    "events": [["1"], ["5", "--callpaths"], ["1", "--event", "{evil}"], ["{evil}"]],
    "static": [["{evil}"]],
    "top": None,
    "attach": None,
    "dump": None,
    "trials": [[], ["show", "1"], ["show", "2"], ["tag", "1", "{evil}"], ["rename", "3", "{evil}"]],
    "compare": [["1", "3"], ["2", "4"]],
    "gate": None,
    "pivot": [
        ["--rows", "application,routine", "--columns", "trial"],
        ["--rows", "kernel", "--columns", "gpu,experiment"],
        ["--rows", f"meta.{EVIL}Command", "--columns", "trial", "--cell", "duration"],
    ],
    "query": [["SELECT * FROM trials"], ['SELECT name AS "{evil}" FROM timer'], ["{evil}"]],
    "roofline": [
        ["5", "--ceilings", "V100 SXM2"],
        ["5", "--ceilings", EVIL],
        ["2", "--peak", EVIL],
    ],
    "avail": [["{evil}"], ["--chip", "{evil}"], ["--check", "{evil}"]],
    "derive": [["list"], ["show", "{evil}"], ["sql", f"{EVIL}metric"], ["add", "{evil}", "time"]],
    "candidates": [["1"], ["2"], ["1", "--metric", f"{EVIL}metric"]],
    "import": [["{evil}"]],
    "export": None,
    "sweep": [["{all}", "--over", "n"], ["--over", "{evil}"]],
    "serve": None,
    "setup": [["{evil}"]],
    "clean": None,
    "merge": [["{evil}"], ["{db}"]],
    "store": [["check", "--db", "{evil}"], ["create", "--db", "postgresql://{evil}"]],
    "push": [["--to", "{evil}"], ["{evil}", "--to", "postgresql://{evil}"]],
    "pull": [["--from", "{evil}"], ["{evil}", "--from", "postgresql://{evil}"]],
    "ceilings": [["list"], ["datasheet", "{evil}"]],
    "doctor": [["{db}"], ["{evil}"], []],
    "completion": None,
    "help": None,
}


def harmless() -> list[Profile]:
    """Programs, programs with GPUs, one with kernels for a roofline, one with layers and phases."""
    counted = {"flop_fp32": 2.4e10, "bytes_l2": 1e9, "bytes_dram": 2e8}
    kernels = (Kernel("gemm", 10, 2_000_000, counted), Kernel("copy", 5, 1_000_000, counted))
    some = [gpu_profile(n) if n % 2 == 0 else small_profile(n) for n in (1, 2, 3, 4)]
    layer = Timer("body [Linear]", groups=("LAYER",), short="body")
    data = Timer("data", groups=("PHASE", "PHASE_DATA"))
    main_thread = host(call("main", 1, 10, [call(data, 2, 20), call(layer, 2, 30)]))
    training = profile_of(main_thread, number=6)
    training.threads[0].steps = [steps([1000, 10, 30])]
    training.threads[0].activities = [spanned(2, 5, 1005)]
    training.threads[0].steps[0].values[EVIL] = array("d", [1, 2, 3])
    return [*some, gpu_trial(*kernels, number=5), training]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "trials.db"
    with ProfileDB.open(path, create=True, readonly=False) as db:
        for number, made in enumerate(harmless(), 1):
            db.tag(add_profile(db, hostile(made)), EVIL)
            assert len(db.trials()) == number
        add_ceilings(db, [attacking(one) for one in EPYC])
    with sqlite3.connect(path) as raw:  # what no writer of ours lets through
        raw.execute("UPDATE trial SET name = name || char(27) || '[2J'")
    return path


def options_of(command: str) -> list[list[str]]:
    """No option, and each switch and choice of a command by itself."""
    found: list[list[str]] = [[]]
    for action in commands.command_parser(command)._actions:
        if not action.option_strings or action.dest in ("help", "form", "yes", "compact", "move"):
            continue
        option = action.option_strings[-1]
        if option == "--color":
            continue  # another test has it
        if action.choices:
            found += [[option, str(choice)] for choice in action.choices]
        elif action.nargs == 0 and not isinstance(action, argparse.BooleanOptionalAction):
            found.append([option])
        elif action.dest in ("filter", "group", "thread", "where", "match_table", "baseline"):
            found.append([option, EVIL])
    return found


def answer(capsys, *line: str) -> tuple[int, str, str]:
    code = commands.main(list(line))
    said = capsys.readouterr()
    return code, said.out, said.err


def check(text: str, form: str) -> None:
    """Nothing in it acts on a terminal, or on the spreadsheet or page that it is made for."""
    assert not UNSAFE.search(text), ascii(UNSAFE.search(text))
    if form == "csv":
        for row in csv.reader(io.StringIO(text)):
            for cell in row:
                assert not re.match(r"\s*[=+@]|\s*-(?![\d.])", cell), cell
                assert ";=1+1" not in cell
    elif form == "json" and text:
        json.loads(text)
    elif form == "markdown":
        assert "<script" not in re.sub(r"\\.", "", text)


def test_every_command_is_tried():
    assert set(ARGUMENTS) == set(commands.COMMANDS)


def _tried():
    """Those with many options take seconds."""
    for name, lines in ARGUMENTS.items():
        if lines:
            slow = name in ("pprof", "compare", "roofline", "pivot")
            yield pytest.param(name, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.slow
@pytest.mark.parametrize("command", _tried())
def test_no_command_lets_a_hostile_text_through(command, database, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_DB", str(database))
    words = {"{evil}": EVIL.replace("\0", ""), "{db}": str(database), "{all}": "*"}
    parser = commands.command_parser(command)
    forms = [one for one in FORMS if one == "text" or f"--{one}" in parser._option_string_actions]
    answered = 0
    for line in ARGUMENTS[command] or ():
        line = [words.get(word, word.replace("{evil}", "evil")) for word in line]
        for option in options_of(command):
            for form in forms:
                if option and form != forms[len(option[-1]) % len(forms)]:
                    continue  # each form with the command alone, and one with each option
                chosen = [] if form == "text" else [f"--{form}"]
                code, out, err = answer(capsys, command, *line, *option, *chosen)
                check(out, "text" if line[:1] == ["sql"] else form)
                check(err, "text")
                assert all(part.startswith("taupy: ") for part in err.splitlines()[:1]), err
                answered += code == 0 and bool(out or err)
    assert answered or command in REFUSED, "nothing was shown"


def test_colors_are_the_only_escapes_on_a_terminal(database, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, out, _ = answer(capsys, "pprof", "2", "--db", str(database))
    assert "\x1b[" in out
    check(re.sub(r"\x1b\[[0-9;]*m", "", out), "text")


def test_no_line_of_a_table_is_broken_by_a_name(database, capsys, tmp_path):
    """As many lines as there are for the same profile with harmless names."""
    other = tmp_path / "harmless.db"
    with ProfileDB.open(other, create=True, readonly=False) as db:
        for made in harmless():
            add_profile(db, made)
    for line in (["trials"], ["pprof", "2", "--kernels"], ["pprof", "1", "--tree"]):
        _, evil, _ = answer(capsys, *line, "--db", str(database))
        _, plain, _ = answer(capsys, *line, "--db", str(other))
        tables = [re.sub(r"(?m)(^-+\n)?^note:.*\n", "", text) for text in (evil, plain)]
        assert len(tables[0].splitlines()) == len(tables[1].splitlines()), line


# --- files -------------------------------------------------------------------

_BINARY = ("parquet", "pprof", "pstats", "perfetto")


@pytest.mark.parametrize("trial", [1, 2])
@pytest.mark.parametrize("name", [writer.name for writer in registry.writers()])
def test_no_text_export_lets_a_hostile_text_through(name, trial, database, capsys, tmp_path):
    if name.startswith("parquet"):
        pytest.importorskip("pyarrow", reason="PyArrow is an extra")
    target = tmp_path / "out"
    line = ["export", str(trial), "--format", name, "-o", str(target), "--db", str(database)]
    code, _, err = answer(capsys, *line)
    check(err, "text")
    if code:
        return  # this trial has nothing for that format, and a line says so
    files = [path for path in (target.rglob("*") if target.is_dir() else [target])]
    for path in files:
        check(str(path.name), "text")
        if path.is_file() and not name.startswith(_BINARY):
            text = path.read_bytes().decode("utf-8")
            check(text.replace("\t", " "), "csv" if name.startswith("csv") else "text")
    code, _, err = answer(capsys, "import", str(target), "--db", str(tmp_path / "back.db"))
    check(err, "text")
    if code == 0:
        _, out, err = answer(capsys, "pprof", "--db", str(tmp_path / "back.db"))
        check(out + err, "text")


def test_a_hostile_file_name_is_escaped(database, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "\x1b[2J\n\u202e<script>.collapsed"
    code, _, err = answer(capsys, "export", "1", "-o", name, "--db", str(database))
    assert code == 0 and "\\x1b[2J\\n\\u202e<script>" in err
    check(err, "text")
    code, _, err = answer(capsys, "import", name, "--db", "back.db")
    assert code == 0
    check(err, "text")
    for line in (["pprof", "--db", name], ["serve", name], ["doctor", name]):
        _, out, err = answer(capsys, *line)
        check(out + err, "text")


def test_a_binary_file_is_not_written_to_a_terminal(database, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout", screen := _Terminal())
    for name in ("pprof", "pstats", "perfetto"):
        code, _, err = answer(
            capsys, "export", "1", "--format", name, "-o", "-", "--db", str(database)
        )
        assert code == 2 and "is binary" in err and "-o FILE" in err
    assert screen.getvalue() == ""


def scripts(page: str) -> list[str]:
    return re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "ending"), [("roofline", "html"), ("roofline", "svg"), ("sweep", "svg")]
)
def test_a_hostile_name_is_text_on_a_page_and_in_a_picture(
    command, ending, database, capsys, tmp_path
):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    target = tmp_path / f"out.{ending}"
    line = {
        "roofline": ["roofline", "5", "--ceilings", "V100 SXM2", "-o", str(target)],
        "sweep": ["sweep", "*", "--over", "n", "--plot", str(target)],
    }[command]
    code, out, err = answer(capsys, *line, "--db", str(database))
    assert code == 0, out + err
    page = target.read_text("utf-8")
    check(page.replace("\t", " ").replace("\u200a", " "), "text")
    tags = Tags(page)
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    own = sum("alert(1)" not in script or script.startswith("{") for script in scripts(page))
    assert tags.elements.count("script") == own
    if ending == "svg":
        assert "script" not in tags.elements
        import xml.etree.ElementTree as tree

        tree.fromstring(page)
    else:
        policy = dict(tags.attributes)["content"] or ""
        assert any("default-src 'none'" in (value or "") for _, value in tags.attributes), policy


# --- notebooks and progress --------------------------------------------------


SHOWN = {*("p", "b", "i", "a", "br", "div", "span", "code"),
         *("table", "thead", "tbody", "tr", "th", "td")}  # fmt: skip
"""Elements below a notebook's cell; they have no scripts, and load nothing."""


def test_a_notebook_shows_a_hostile_trial_as_text(database):
    db = taupy.open(database)
    trial = db.trial(2)
    for shown in (repr(db), repr(trial), repr(db.sweep("1", "3", over="n")), db.path):
        check(shown, "text")
    for page in (db._repr_html_(), trial._repr_html_()):
        check(page, "text")
        assert set(Tags(page).elements) <= SHOWN


class _Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "cmd" in text:
            self.drawn.set()
        return super().write(text)


def test_a_progress_bar_shows_a_hostile_name_as_text(monkeypatch):
    from taupy.commands import bar

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(bar, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr("sys.stderr", said := _Terminal())
    with bar.shown() as progress:
        progress.begin(EVIL, 10)
        progress.advance(5)
        said.drawn.wait(60)
    text = said.getvalue()
    assert "cmd" in text
    ours = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text)
    check(ours, "text")
    assert "\x1b[2J" not in text and "\x1b]" not in text


@pytest.mark.slow
def test_a_hostile_program_is_named_as_text(runs):
    name = "\x1b[2J\n\u202ex.py"
    (runs.folder / name).write_text("import taupy\ntaupy.metadata('\\x1b[2J', '\\x1b]0;x\\x07')\n")
    result = runs.taupy("run", "--db", str(runs.database), "--trial", "\x1b[2Jt", name, "\x1b[2J")
    assert result.returncode == 0, result.stderr
    assert "trial 1" in result.stderr
    check(result.stdout + result.stderr, "text")
    os.remove(runs.folder / name)
    result = runs.taupy("run", "--db", str(runs.database), name)
    assert result.returncode
    assert visible(name) in result.stderr or "No such file" in result.stderr
