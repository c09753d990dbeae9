"""The page of a report: its numbers, its scripts, and that it holds nothing it should not."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import random
import re
import shutil
import subprocess
import unicodedata
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

import taupy as taupy_package
from taupy.analysis.findings.calls import trees
from taupy.model.finding import Evidence
from taupy.model.profile import Timer
from taupy.model.question import LAUNCHES, Question
from taupy.model.sampled import GROWTH, STATES
from taupy.pprof import cells
from taupy.pprof.view import Column, View
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.report import contents, front, page
from taupy.report.forest import COLUMNS, Forest, shown_name
from tests.builders import call, event, gpu_profile, host, profile_of, small_profile, wide_profile
from tests.hostile import hostile
from tests.in_process import taupy
from tests.unit.roofline.build import Kernel, gpu_trial

HERE = Path(__file__).parent
STATIC = Path(page.__file__).parent / "static"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "a.db"
    with ProfileDB.open(path, create=True) as db:
        for profile in (small_profile(1), gpu_profile(2), wide_profile(300, number=3)):
            add_profile(db, profile)
    return path


def unpacked(forest: Forest) -> dict[str, list[int]]:
    """The columns as a reader of the bytes finds them."""
    content, widths = forest.packed()
    rows = forest.layout(widths)["rows"]
    columns = {}
    start = 0
    for name, width in widths.items():
        planes = [content[start + plane * rows :][:rows] for plane in range(width)]
        coded = [int.from_bytes(bytes(value), "little") for value in zip(*planes, strict=True)]
        columns[name] = [(value >> 1) ^ -(value & 1) for value in coded]
        start += width * rows
    assert start == len(content)
    return columns


def added_up(columns: dict[str, list[int]]) -> list[int]:
    """Inclusive time of each row, as the page adds it up."""
    time = [own + rest for own, rest in zip(columns["own"], columns["rest"], strict=True)]
    above: list[int] = []
    parents = []
    for row, depth in enumerate(columns["depth"]):
        del above[depth:]
        parents.append(above[-1] if above else -1)
        above.append(row)
    for row in range(len(time) - 1, -1, -1):
        if parents[row] >= 0:
            time[parents[row]] += time[row]
    return time


@pytest.mark.parametrize("trial", [1, 2, 3])
def test_findings_and_the_forest_read_the_call_paths_once(database, trial):
    statements = []
    with ProfileDB.open(database) as db:
        db.connection.set_trace_callback(statements.append)
        contents.of_trial(db, db.trial(trial))
    whole = ("callpath.parent_id", ".inclusive", ".exclusive")
    assert len([sql for sql in statements if all(column in sql for column in whole)]) == 1


@pytest.mark.parametrize("trial", [1, 2, 3])
def test_the_forest_holds_what_the_database_holds(database, trial):
    with ProfileDB.open(database) as db:
        table = values(db, trees(trial))
    forest = Forest()
    forest.add(table, {})
    columns = unpacked(forest)
    assert list(columns) == list(COLUMNS)
    rows = sorted(
        (forest.names[timer]["name"], calls - 1, own, whole)
        for timer, calls, own, whole in zip(
            columns["timer"], columns["calls"], columns["own"], added_up(columns), strict=True
        )
    )
    assert rows == sorted(
        zip(
            (shown_name(timer.short_name) for timer in table.row_labels("timer")),
            map(int, table.column("calls")),
            map(round, table.column("exclusive", "time")),
            map(round, table.column("inclusive", "time")),
            strict=True,
        )
    )
    assert sorted(thread["start"] for thread in forest.threads)[0] == 0


def some_numbers(kind: str) -> list[float]:
    """Bounds, ties, whole and real numbers, negative ones, of all sizes that a kind may have."""
    rng = random.Random(kind)
    least, most = {"percent": (-2, 3), "int": (0, 14), "bytes": (0, 16)}.get(kind, (-9, 15))
    real = [10 ** rng.uniform(least, most) for _ in range(300)]
    ties = [rng.randrange(100_000) / 2 ** rng.randrange(8) for _ in range(300)]
    fives = [rng.randrange(1000) * 10**power + 5 * 10 ** (power - 1) for power in range(1, 9)]
    bounds = [0, 1, 999, 1000, 59_949_999_999, 59_950_000_000, 123_456.7, 37_540.37, 1_740_000_000]
    numbers = [*bounds, *ties, *fives, *real, *map(round, real)]
    return [*numbers, *(-number for number in numbers[:100] if number)]


@needs_node
@pytest.mark.parametrize("kind", cells.FORMATS)
def test_the_page_formats_numbers_as_everything_else_does(kind):
    numbers = some_numbers(kind)
    tables = [page._table(View("", [Column("x", kind)], [[number]])) for number in numbers]
    given = [(table["columns"][0]["kind"], table["rows"][0][0]) for table in tables]
    answer = subprocess.run(
        ["node", HERE / "numbers.mjs"], input="\n".join(map(json.dumps, given)), text=True,
        capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    expected = [cells.FORMATS[kind](number) for number in numbers]
    texts = answer.stdout.splitlines()
    differ = [each for each in zip(numbers, expected, texts, strict=True) if each[1] != each[2]]
    assert differ == []


def test_a_table_says_how_many_of_its_rows_the_page_has():
    most = page.MOST_ROWS
    for rows, notes in ((most, []), (most + 1, ["the first 5,000 of 5,001 rows"])):
        table = page._table(View("", [Column("x", "int")], [[at] for at in range(rows)]))
        assert [row[0] for row in table["rows"]] == [*range(most)]
        assert [note.partition(";")[0] for note in table["notes"]] == notes


@needs_node
def test_the_scripts_pass_their_own_tests():
    scripts = sorted(HERE.glob("*.test.mjs"))
    done = subprocess.run(["node", "--test", *scripts], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_every_script_is_in_the_page_and_the_policy_allows_just_it(database, tmp_path):
    assert sorted(page.MODULES) == sorted(path.stem for path in STATIC.glob("*.js"))
    done = taupy("report", "1", "-o", tmp_path / "a.html", "--db", database)
    assert (done.returncode, done.stdout) == (0, "")
    text = (tmp_path / "a.html").read_text("utf-8")
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="', text)
    assert "import " not in script.replace("import torch", "")


def test_names_of_a_hostile_trial_are_in_the_page_as_text_only(tmp_path):
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, hostile(small_profile(1)))
    assert taupy("report", "-o", tmp_path / "a.html", "--db", tmp_path / "a.db").returncode == 0
    text = (tmp_path / "a.html").read_text("utf-8")
    assert not [
        letter
        for letter in text
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs") and letter != "\n"
    ]
    assert text.count("<script") == 5
    contents = re.search(r'id="contents">([^<]*)</script>', text)[1]
    shown = json.dumps(json.loads(zlib.decompress(base64.b64decode(contents))), ensure_ascii=False)
    assert shown.isprintable() and "<script" in shown


def test_two_trials_make_one_page(database, tmp_path):
    done = taupy("report", "1", "3", "-o", tmp_path / "ab.html", "--db", database)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "ab.html").read_text("utf-8")
    contents = re.search(r'id="contents">([^<]*)</script>', text)[1]
    layout = json.loads(zlib.decompress(base64.b64decode(contents)))
    assert {thread["side"] for thread in layout["forest"]["threads"]} == {0, 1}
    assert layout["forest"]["compares"]
    assert "noise" in json.dumps(layout["sections"][0])  # it is unknown, and the page says so


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("1", "2", "3", "-o", "a.html"), "takes one trial, or two to compare, not 3"),
        (("1", "2"), "add -o FILE.html"),
        (("1", "-o", "no/such/folder/a.html"), "cannot be written: No such file or directory"),
        (("1", "-o", "a.html", "--json"), "ask for one of them"),
        (("99", "-o", "a.html"), "99"),
    ],
)
def test_what_cannot_be_done_is_reported_in_one_line(database, tmp_path, words, message):
    done = taupy("report", *words, "--db", database, cwd=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "a.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("tab", ["overview", "flame", "routines", "machine", "kernels"])
def test_it_opens_in_a_browser_from_a_file(database, tmp_path, tab):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    assert taupy("report", "2", "-o", tmp_path / "a.html", "--db", database).returncode == 0
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--enable-logging=stderr", "--virtual-time-budget=20000"),
            *("--user-data-dir=" + str(tmp_path / "browser"),),
            *("--host-resolver-rules=MAP * ~NOTFOUND",),
            f"file://{tmp_path}/a.html#tab={tab}&theme=dark",
        ],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert 'data-ready="yes"' in done.stdout
    assert "CONSOLE" not in done.stderr
    assert re.search(
        rf'aria-selected="true"[^>]*data-tab="{tab}"|data-tab="{tab}"[^>]*aria-selected="true"',
        done.stdout,
    )


def test_a_notebook_shows_the_page_in_a_frame(database, tmp_path):
    page = taupy_package.open(database).trial(1).report(height=500)
    frame = page._repr_html_()
    assert repr(page).startswith("<report of trial 1, ")
    (attributes,) = re.findall(r"<iframe ([^<>]*)srcdoc", frame)
    assert 'sandbox="allow-scripts"' in attributes  # and no allow-same-origin
    assert "height: 500px" in frame
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == page.text
    page.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text("utf-8") == page.text


def test_the_roofline_is_a_tab_beside_the_kernels(tmp_path):
    kernel = Kernel("gemm", 10, 1_000_000, {"flop_fp32": 4e9, "bytes_dram": 2e8})
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, gpu_trial(kernel))
        held = contents.of_trial(db, db.trial(1))
    names = [section.name for section in held.sections]
    assert names[names.index("kernels") + 1] == "roofline"
    (roofline,) = [section for section in held.sections if section.name == "roofline"]
    (view,) = roofline.parts[0].views
    assert view.rows[0][1] == "gemm"
    assert "iframe" not in page.html_page(held)


def test_a_point_of_the_roofline_tells_its_numbers(tmp_path):
    kernel = Kernel("gemm", 10, 1_000_000, {"flop_fp32": 4e9, "bytes_dram": 2e8})
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, gpu_trial(kernel))
        (told,) = contents.of_trial(db, db.trial(1)).roofline["points"]
    assert told == [
        "gemm",
        "10 calls",
        "1.00 ms, 100.0 % of the time in kernels",
        "fp32: 4.00 Gflop",
        "DRAM: 200 MB, 20.0 flop/B, 200 GB/s",
        "performance: 4.00 Tflop/s",
        "of its roof: 25.5 %",
        "bound by compute (fp32)",
        "launch overhead: 42.0 us",
        "flop are measured, bytes measured",
        "on Tesla V100-SXM2-16GB (trial 1)",
    ]


def test_without_operations_or_bytes_there_is_no_roofline(database):
    with ProfileDB.open(database) as db:
        both = [contents.of_trial(db, db.trial(trial)) for trial in (1, 2)]
    assert [held.roofline for held in both] == [None, None]
    assert not [section for held in both for section in held.sections if section.name == "roofline"]


def test_lines_of_memory_reach_from_the_first_look_to_the_last():
    """The last value stands for 36 of 48 seconds, since looks are joined as a run gets longer."""
    view = View(
        "",
        tuple(Column(name) for name in ("node", "start_ns", "end_ns", "resident_bytes")),
        [
            (0, 0, 4_000_000_000, 10.0),
            (0, 4_000_000_000, 12_000_000_000, 20.0),
            (0, 12_000_000_000, 48_000_000_000, 30.0),
            (1, 1_000_000_000, 3_000_000_000, 5.0),
            (1, 3_000_000_000, 4_000_000_000, None),
        ],
    )
    assert [line.points for line in contents._over_time(view)] == [
        [(0, 10), (2, 10), (8, 20), (30, 30), (48, 30)],
        [(1, 5), (2, 5), (3, 5)],
    ]


def memory_of(sizes):
    names = ("node", "start_ns", "end_ns", "resident_bytes", "most_bytes")
    rows = [(0, at, at + 1, size, size) for at, size in enumerate(sizes)]
    return View("", tuple(Column(name) for name in names), rows)


def test_memory_that_stays_the_same_has_no_chart(monkeypatch):
    for sizes, is_drawn in (((100, 99, 100), False), ((10, 60, 100), True)):
        monkeypatch.setattr(front.memory, "views", lambda *_, of=sizes: [memory_of(of)])
        assert (front._memory(None, 1) is not None) == is_drawn


def test_evidence_names_threads_as_the_timeline_does():
    question = Question((1,), by=("thread",), values=("calls",))
    evidence = Evidence(question, ("thread", "calls"), (("0.0.1", 3), ("0.0.2", 1)), 2)
    shown = front._evidence(evidence, {"0.0.1": "w0"})
    assert shown["rows"] == [["w0", "3"], ["0.0.2", "1"]]


def test_evidence_of_launches_has_short_names_and_units():
    question = Question((1,), by=("device", "timer"), values=LAUNCHES)
    name = "void cutlass::Kernel2<cutlass_80_tensorop_gemm>(cutlass_80_tensorop_gemm::Params)"
    headings = ("device", "timer", "launch.count", "launch.time")
    rows = (("0 1", name, 17, 98_718), ("2 1", "copy", 1, 10))
    shown = front._evidence(Evidence(question, headings, rows, 2), {})
    assert shown["headings"] == ["GPU", "routine", "launches", "time"]
    assert shown["rows"] == [
        ["0", "cutlass::Kernel2", "17", "98.7 us"],
        ["0 of process 2", "copy", "1", "10 ns"],
    ]


def test_tables_of_one_kind_say_what_their_rows_are_and_their_notes_once():
    columns = [Column("ns", "time_ns"), Column("routine")]
    view = View("GROWTH (sampled)", columns, [], ["a", "b"])
    assert contents._by(view).title == "GROWTH, by routine (sampled)"
    views = [view, replace(view, notes=["b"]), replace(view, notes=["b", "c"])]
    shown = contents._notes_once(views)
    assert [view.notes for view in shown] == [["a"], [], ["b", "c"]]


def test_tables_have_the_words_of_people_and_no_rows_that_say_nothing(tmp_path):
    """Routines that only call those where memory grew, and states in which no thread was seen."""
    work = call(Timer("work", "a.py", 3), 1, 10)
    main = call(Timer("main", "a.py", 1), 1, 10, [work])
    noted = [replace(event(GROWTH, [64.0], "KiB"), row=1)]
    noted += [replace(event(state, [3e8], "ns"), row=1) for state in STATES[:2]]
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        trial = add_profile(db, profile_of(host(main, name="MainThread", events=noted)))
        sections = contents.of_trial(db, db.trial(trial)).sections
    tables = {
        section.name: [view for part in section.parts for view in part.views]
        for section in sections
    }
    (routines,) = tables["routines"]
    assert [column["heading"] for column in page._table(routines)["columns"]] == [
        "Routine", "%Time", "Own", "With callees", "Calls", "Calls made", "Per call",
    ]  # fmt: skip
    labels = [[row[0] for row in view.rows] for view in tables["memory"]]
    assert labels == [["work [{a.py}{3}]"], ["main [{a.py}{1}] => work [{a.py}{3}]"], labels[-1]]
    assert [len(view.rows) for view in tables["waiting"]] == [1, 1]
    shown = page._table(tables["waiting"][1])
    names = [column["name"] for column in shown["columns"]]
    assert names == ["routine", "on_cpu_ns", "runnable_ns", "looks"]


def test_a_state_in_which_only_others_were_seen_is_zero(tmp_path):
    main = call(Timer("main", "a.py", 1), 1, 10, [call(Timer("work", "a.py", 3), 1, 10)])
    noted = [replace(event(state, [3e8], "ns"), row=row) for row, state in enumerate(STATES[:2])]
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        trial = add_profile(db, profile_of(host(main, name="MainThread", events=noted)))
        sections = contents.of_trial(db, db.trial(trial)).sections
    (view,) = (
        view for section in sections if section.name == "waiting"
        for part in section.parts for view in part.views if view.columns[0].name == "routine"
    )  # fmt: skip
    assert view.title == "WORKING OR WAITING, by routine (sampled)"
    names = [column.name for column in view.columns]
    of_states = [names.index(name) for name in ("on_cpu_ns", "runnable_ns", "sleeping_ns")]
    cells = {row[0]: [row[at] for at in of_states] for row in view.rows}
    assert cells == {"main [{a.py}{1}]": [3e8, 0, 0], "work [{a.py}{3}]": [0, 3e8, 0]}
    shown = [column["name"] for column in page._table(view)["columns"]]
    assert shown == ["routine", "on_cpu_ns", "runnable_ns", "error_ns", "looks"]


def test_values_of_user_events_are_shown_with_their_units(tmp_path):
    noted = [event("Bytes set", [512.0]), event("Heap", [2.0], "KiB"), event("Wait", [9.0], "ns")]
    noted.append(event("Batch loss", [0.5], ""))
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        main = call(Timer("main", "a.py", 1), 1, 10)
        trial = add_profile(db, profile_of(host(main, name="MainThread", events=noted)))
        sections = contents.of_trial(db, db.trial(trial)).sections
    views = next(section for section in sections if section.name == "events").parts[0].views
    shown = {}
    for view in views:
        (at,) = (at for at, column in enumerate(view.columns) if column.name == "maximum")
        shown |= {row[0]: (row[at], view.columns[at].kind) for row in view.rows}
    assert shown == {
        "Bytes set": (512, "bytes"),
        "Heap": (2048, "bytes"),
        "Wait": (9, "time_ns"),
        "Batch loss": (0.5, "tau_count"),
    }
    assert [bool(view.title) for view in views] == [True, False, False]


def test_user_events_that_other_tabs_say_more_of_are_not_listed(tmp_path):
    names = ["Seen Sleeping", "Time per Call from 8", "Suspended in Line 3", "Batch loss"]
    names += ["Resident Memory", "Resident Memory Growth", "Thread CPU Time"]
    names.append("PyTorch CUDA Memory Peak, GPU 0")
    noted = [event(name, [1.0, 2.0], "ns") for name in names]
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        main = call(Timer("main", "a.py", 1), 1, 10)
        trial = add_profile(db, profile_of(host(main, name="MainThread", events=noted)))
        sections = contents.of_trial(db, db.trial(trial)).sections
    (view,) = next(section for section in sections if section.name == "events").parts[0].views
    assert view.title == "USER EVENTS of NODE 0, CONTEXT 0, THREAD 0"
    assert [row[0] for row in view.rows] == ["Batch loss"]
    assert (
        "".join(column.heading for column in view.columns if column.name == "maximum") == "Largest"
    )
