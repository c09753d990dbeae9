"""`taupy report`: its screen, its JSON, and when rules abstain."""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import replace
from functools import cache

import pytest

from taupy.analysis.division import division
from taupy.analysis.findings import source
from taupy.analysis.findings.calls import place
from taupy.analysis.findings.limits import MOST_FINDINGS
from taupy.analysis.line_times import HotLine
from taupy.analysis.places import Part, Place, Places
from taupy.answers import places
from taupy.answers.own_code import own_code
from taupy.commands import main
from taupy.model.finding import Evidence
from taupy.model.profile import LineTime, SourceFile, Timer
from taupy.model.question import Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import CPU_TIME, RUN_DELAY
from taupy.model.thread_groups import MAIN
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.record.compiled_modules import COMPILED
from taupy.report import cell, contents, document, front, screen
from taupy.report.evidence import trial_of
from taupy.report.report import report
from taupy.units import duration
from tests.builders import call, database_at, event, host, profile_of
from tests.findings import gpu_faults, gpu_healthy
from tests.hostile import EVIL, UNSAFE

WIDTH, HEIGHT = screen.WIDTH, screen.HEIGHT


def _stored(tmp_path, profile):
    path = str(tmp_path / "t.db")
    with database_at(path) as db:
        add_profile(db, profile)
    return path


def _report(tmp_path, profile):
    with ProfileDB.open(_stored(tmp_path, profile)) as db:
        return report(db, db.latest())


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Of a training, its database and its report: stored and made once, for all that read them."""

    @cache
    def made(training):
        folder = tmp_path_factory.mktemp("reported")
        return folder / "t.db", _report(folder, training())

    return made


def _printed(capsys, *arguments):
    assert main(["report", *arguments]) == 0
    return capsys.readouterr().out


def test_the_screen_says_what_ran_where_time_went_and_what_to_do(tmp_path, capsys):
    path = _stored(tmp_path, gpu_faults.loader_with_few_workers())
    assert _printed(capsys, "--db", path) == (
        "2.30 s  taupy run                       exit 0 · NVIDIA H100 80GB HBM3 · trial 1\n"
        "GPU  1.10 s of kernels and copies, 48 % of the run\n"
        "▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚▚██████▓▓▓▓····························\n"
        "▚ data wait 1.20 s 52 %   █ forward 190 ms 8 %   ▓ backward 110 ms 5 %\n"
        "· outside of phases 800 ms 35 %\n"
        "\n"
        "Where the time goes  routines, with libraries and C\n"
        "  1.20 s  52 % ████████ <module> 1x  train.py:1\n"
        "                        └ _BaseDataLoaderIter.__next__ 1.20 s, 200 calls\n"
        "  800 ms  35 % █████    end 200x     train.py:1\n"
        "                        └ cudaStreamSynchronize 800 ms\n"
        "  300 ms  13 % ██       step 200x    train.py:1\n"
        "by package:  torch 1.31 s\n"
        "\n"
        "Findings  seconds are upper bounds\n"
        "▲ large   data wait, up to 1.20 s, 52 %       torch/utils/data/dataloader.py:700\n"
        "  the training waits 1.20 s for its data, 52.2 % of the run, in\n"
        "  _BaseDataLoaderIter.__next__ (torch/utils/data/dataloader.py:700)\n"
        "▲ large   synchronisation, up to 800 ms, 35 %                         train.py:1\n"
        "\n"
        "measured completely; not measured: counters, C functions\n"
        f"next: taupy report 1 --db {path} -o report.html\n"
    )


def test_colours_are_added_to_the_same_text(tmp_path, capsys, monkeypatch):
    path = _stored(tmp_path, gpu_faults.loader_with_few_workers())
    plain = _printed(capsys, "--db", path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    colored = _printed(capsys, "--db", path)
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    assert colored.startswith("\x1b[1m2.30 s\x1b[0m  ")
    assert "\x1b[31m▲\x1b[0m" in colored and "\x1b[32m██████\x1b[0m" in colored  # red, green


def test_verbose_says_everything(tmp_path, capsys):
    path = _stored(tmp_path, gpu_faults.loader_with_few_workers())
    shown = " ".join(_printed(capsys, "--db", path, "-v").split())
    for said in (
        "app/default/1, 2023-11-14 22:13:20 UTC",
        "try: read results (.item(), .cpu(), prints) once in many steps",
        "confidence high; refuted by: ",
        "evidence: ",
        "no verdict on memory growth: ",
        "not measured: counters (--metrics), C functions (--c-calls)",
        "Net [Net] 190 ms",
    ):
        assert said in shown, said


def test_what_was_not_measured_is_wrapped_and_not_cut(tmp_path):
    measured = _report(tmp_path, gpu_faults.loader_without_workers())
    measured = replace(measured, unmeasured=("GPU", "a word " * 20))
    shown = screen.text(measured, verbose=True)
    assert " ".join(shown.split()).count("a word") == 20
    assert max(map(len, shown.splitlines())) <= WIDTH


@pytest.mark.parametrize("training", [*gpu_faults.FAULTS, *gpu_healthy.HEALTHY])
def test_a_report_fits_on_a_screen(training, reported):
    _, measured = reported(training)
    lines = screen.text(measured, WIDTH, HEIGHT).splitlines()
    assert len(lines) <= HEIGHT
    assert max(map(len, lines)) <= WIDTH


def test_advice_is_left_out_where_the_screen_is_full(tmp_path):
    found = _report(tmp_path, gpu_faults.loader_without_workers())
    full = screen.text(found, WIDTH, 100)
    short = screen.text(found, WIDTH, 12)
    assert "try:" in full
    assert "try:" not in short
    kinds = ["data wait", "synchronisation"]
    assert re.findall(r"^[▲◆●] \w+ +([^,]+), up to", short, re.MULTILINE) == kinds


def test_what_to_do_about_an_idle_gpu_stays_as_long_as_why(tmp_path):
    """Longer than the sentences of findings, one of which may say why once more."""
    found = _report(tmp_path, gpu_faults.loader_without_workers())
    idle = [("GPU 0: it was idle", "make batches faster")]
    measured = replace(found, gpu_times=idle)
    shown = [screen.text(measured, WIDTH, height) for height in range(60, 8, -1)]
    told = [("it was idle" in text, "  so: make batches" in text, "try:" in text) for text in shown]
    assert [*dict.fromkeys(told)] == [
        (True, True, True), (True, True, False), (False, False, False),
    ]  # fmt: skip


def test_why_is_said_before_a_fourth_place(tmp_path):
    found = _report(tmp_path, gpu_faults.item_each_step())
    first = found.judgement.findings[0].sentence.split()[:4]
    assert " ".join(first) in screen.text(found, WIDTH, 14)
    assert " ".join(first) not in screen.text(found, WIDTH, 13)


def _with_places(group, places):
    """A group of threads with these places."""
    shown = sorted(places, key=lambda place: place.kind != "own")
    own = sum(place.kind == "own" for place in shown)
    return group._replace(
        places=Places(
            lambda: [place.timer for place in shown],
            [place.ns for place in shown],
            own,
            shown.__getitem__,
            lambda: [False] * own,
            group.places.whole,
            asleep=any(place.asleep_ns for place in shown),
            with_lines=range(len(shown)),
        )
    )


def test_small_places_leave_the_screen_before_the_advice(tmp_path):
    measured = _report(tmp_path, gpu_faults.tiny_kernels())
    (main, *others) = measured.places
    own = next(place for place in main.places if place.kind == "own")
    shares = [0.04 - 0.01 * at for at in range(3)]
    small = [replace(own, share=s, ns=s * main.places.whole, calls=77) for s in shares]
    measured = replace(measured, places=[_with_places(main, [*main.places, *small]), *others])
    shown = [screen.text(measured, WIDTH, height) for height in range(40, 8, -1)]
    told = [("try:" in text, " 77x" in text) for text in shown]
    assert [*dict.fromkeys(told)] == [(True, True), (True, False), (False, False)]


def test_a_callee_that_does_not_fit_is_left_out_whole():
    """Only its number of calls may be: an operation may have a comma of its own."""
    parts = ["sum 256 ms, 5,400 calls", "work[y + 1, x] ~475 ms"]
    assert screen._fitting(parts, 80) == parts
    assert screen._fitting(parts, 36) == parts[:1]
    assert screen._fitting(parts, 12) == ["sum 256 ms"]


@pytest.mark.parametrize("training", [*gpu_faults.FAULTS, *gpu_healthy.HEALTHY])
def test_no_report_is_without_places(training, reported):
    """With findings or without; and what a screen says is what `--json` says."""
    _, measured = reported(training)
    lines = screen.text(measured, WIDTH, HEIGHT).splitlines()
    (begin,) = (at for at, line in enumerate(lines) if line.startswith("Where the time goes"))
    told = document.document(measured)
    first = next(row for row in told["places"] if row["kind"] == "own")
    line, *_ = [
        line
        for line in lines[begin:]
        if f" {first['routine']} {first['calls']:,}x  " in line
        and line.endswith(f" {first['file']}:{first['line']}")
    ]
    assert line.split(" %")[0].split() == [
        *duration(first["time_ns"]).split(), f"{first['share_percent']:.0f}",
    ]  # fmt: skip
    for finding in told["findings"][:MOST_FINDINGS]:
        if finding["saved_ns"]:
            said = f"{finding['kind']}, up to {duration(finding['saved_ns'])}, "
            (line,) = [line for line in lines if said in line]
            assert f" {finding['severity']} " in line
    for band in told["strip"]:
        shown = f"{band['name']} {duration(band['time_ns'])} "
        assert band["time_ns"] < 0.001 * told["trial"]["duration_ns"] or any(
            shown in line for line in lines
        )
    assert lines[-1].startswith("next: taupy report 1")


@pytest.mark.parametrize("training", gpu_faults.FAULTS)
def test_screen_page_and_json_have_the_same_numbers(training, reported):
    path, measured = reported(training)
    with ProfileDB.open(path) as db:
        page = front.overview(db, measured, 0)
    told = document.document(measured)
    assert page["run_ns"] == told["trial"]["duration_ns"]
    assert [(band["name"], band["ns"]) for band in page["strip"]] == [
        (band["name"], round(band["time_ns"])) for band in told["strip"]
    ]
    own = [row for row in told["places"] if row["kind"] == "own"]
    of_page = [place for group in page["groups"] for place in group["places"]]
    assert [(place["line"], place["ns"]) for place in of_page] == [
        (row["line"], round(row["time_ns"])) for row in own
    ]
    for shown, finding in zip(page["findings"], told["findings"], strict=True):
        assert shown["severity"] == finding["severity"]
        assert not finding["saved_ns"] or duration(finding["saved_ns"]) in shown["saved"]
    # Where there is room, every one of these numbers is on the screen.
    shown_lines = iter(screen.text(measured, 200, 1000).splitlines())
    numbers = [f" {duration(told['trial']['duration_ns'])} "]
    numbers += [f"{band['name']} {duration(band['time_ns'])}" for band in told["strip"]]
    for row in own:
        if row["threads_group"] == MAIN and row["share_percent"] >= 1:
            numbers.append(
                f" {duration(row['time_ns'])} {row['share_percent']:.0f} % ".replace(
                    " 0 %", " <1 %"
                )
            )
            numbers.append(f" {row['calls']:,}x")
            numbers += [
                f"{callee['routine']} {duration(callee['time_ns'])}"
                for callee in row["callees"][:1]
            ]
    numbers += [
        f"{finding['kind']}, up to {duration(finding['saved_ns'])}"
        for finding in told["findings"]
        if finding["saved_ns"]
    ]
    line = ""
    for number in numbers:  # in this order
        while number not in line:
            line = next(shown_lines, None)
            assert line is not None, (number, told["places"])
            line = re.sub(" +", " ", f" {line} ")


def _waits_in_a_line(before=""):
    """A routine defined in line 20 that waits in line 22, and works a little in line 21, behind
    what stands there before."""
    text = "\n" * 19 + f"def worker():\n    {before}prepare()\n    thread.join()"
    begin, end = len(f"    {before}"), len(f"    {before}prepare()")
    wait = call(Timer("Thread.join", "threading.py", 9), 30, 95_000_000)
    worker = call(Timer("worker", "jobs.py", 20), 1, 5_000_000, [wait])
    profile = profile_of(host(worker, name="MainThread"))
    at = [timer.name for timer in profile.timers]
    waiting, mine = at.index("Thread.join"), at.index("worker")
    profile.threads[0].lines = [
        LineTime(mine, waiting, 22, 22, 4, 20, "wait", 95, 95_000_000, 95, 95.0),
        LineTime(mine, None, 21, 21, begin, end, "cpu", 15, 5_000_000, 15, 15.0),
    ]
    return replace(profile, sources=[SourceFile("jobs.py", "jobs.py", 64 * "0", text=text)])


def test_the_hottest_code_of_the_page_is_the_place_to_look_at_first(tmp_path):
    """Not a line of another thread, in whose sleep more time passes."""
    work = call(Timer("work", "a.py", 3), 1, 60)
    nap = call(Timer("nap", "b.py", 9), 1, 900)
    naps = host(nap, thread=1, events=[event(CPU_TIME, [3], "ns")])
    (tmp_path / "idle").mkdir()
    with ProfileDB.open(_stored(tmp_path, profile_of(host(work), naps))) as db:
        assert front.overview(db, report(db, db.latest()), 0)["hottest"] == {
            "file": "a.py", "line": 3,
        }  # fmt: skip
    asleep = host(nap, events=[event(CPU_TIME, [3], "ns"), event(RUN_DELAY, [1], "ns")])
    with ProfileDB.open(_stored(tmp_path / "idle", profile_of(asleep))) as db:
        assert front.overview(db, report(db, db.latest()), 0)["hottest"] is None


def test_of_threads_the_screen_begins_with_the_place_that_the_end_of_the_run_names(tmp_path):
    """`fetch` takes longer, asleep."""
    join = call(Timer("Thread.join", "threading.py", 9), 1, 900_000_000)
    main = host(call(Timer("main", "a.py", 1), 1, 5_000_000, [join]))
    fetch = call(Timer("fetch", "a.py", 3), 1, 900_000_000)
    digest = call(Timer("digest", "a.py", 9), 1, 300_000_000)
    threads = [
        host(routine, thread=number, events=[event(CPU_TIME, [cpu_ns], "ns")])
        for number, routine, cpu_ns in ((1, fetch, 3_000_000), (2, digest, 300_000_000))
    ]
    profile = profile_of(main, *threads)
    lines = screen.text(_report(tmp_path, profile)).splitlines()
    shown = [name for line in lines for name in ("fetch", "digest") if f"{name} 1x" in line]
    assert shown[0] == "digest"
    assert places.described(places.hottest(places.of_profile(profile))[1]) == "digest (a.py:9)"


def test_the_text_of_a_line_is_cut_around_what_takes_its_time(tmp_path):
    profile = _waits_in_a_line(f"first = {'x' * 70}, ")
    lines = screen.text(_report(tmp_path, profile)).splitlines()
    (line,) = (line.partition("└ ")[2] for line in lines if "└ " in line and "thread" not in line)
    assert line.startswith("…") and "prepare()" in line.partition(" · ")[0]


def test_a_place_is_the_same_line_on_screen_page_and_in_json(tmp_path):
    with ProfileDB.open(_stored(tmp_path, _waits_in_a_line())) as db:
        measured = report(db, db.latest())
        page = front.overview(db, measured, 0)
        without = contents.of_trial(db, measured.trial, with_source=False)
    shown = screen.text(measured, 200, 1000).splitlines()
    told = document.document(measured)["places"]
    group = page["groups"][0]
    for row, of_page, at, text in (
        (told[0], group["places"][0], "jobs.py:21", "prepare()"),
        (told[1], group["apart"][0], "jobs.py:22", "thread.join()"),
    ):
        assert f"{row['file']}:{row['hottest_line']} {row['source']}" == f"{at} {text}"
        of_line = f"{at} ~{duration(row['hottest_ns'])}"
        assert (of_page["at"], of_page["text"], of_page["line"]) == (of_line, text, int(at[-2:]))
        (found,) = (number for number, line in enumerate(shown) if line.endswith(f" {of_line}"))
        assert shown[found + 1].partition("└ ")[2].partition(" · ")[0] == text
        of_routine = f"{row['routine']} {row['calls']}x"
        assert of_page["routine"].endswith(of_routine) and f"{of_routine}  " in shown[found]
        cell_of = cell.fragment(measured).partition(f">{of_line}<")[2]
        assert f"<code>{text}</code>" in cell_of.partition("</tr>")[0]
    assert "thread.join" not in json.dumps(without.overview)


@pytest.mark.parametrize(
    ("line_ns", "count", "own_ns", "asleep_ns", "said"),
    [
        (90, None, 95, 0, " is one line: app.py:9, in 40 calls of work, ~2 ns in each"),
        (90, 1500, 95, 9, " rules, but 90 % is one line: app.py:9, 1,500 calls"),
        (90, 1500, 95, 80, " % is one line that mostly waits: app.py:9, 1,500 calls"),
        (40, None, 95, 0, " rules, but 95 % is one routine: work (app.py:3), 40 calls"),
        (40, None, 95, 80, " is one routine that mostly waits: work (app.py:3), 40 calls"),
        (30, None, 40, 0, " rules have looked"),
    ],
    ids=["line", "exact line", "line waits", "routine", "routine waits", "flat"],
)
def test_without_a_finding_the_place_that_takes_most_is_named(
    line_ns, count, own_ns, asleep_ns, said, tmp_path
):
    """Nobody is to read that there is nothing to do. Calls of the routine are told apart from the
    line's."""
    work = call(Timer("work", "app.py", 3), 40, own_ns)
    others = [call(Timer(f"other{at}", "app.py", 20 + at), 1, (100 - own_ns) / 4)
              for at in range(4)]  # fmt: skip
    root = call(Timer(".taupy application", groups=("TAUPY",)), 1, 0, [work, *others])
    measured = _report(tmp_path, profile_of(host(root, name="MainThread")))
    assert not measured.judgement.findings
    (main,) = measured.places
    first, *rest = main.places
    hot = HotLine("app.py", 9, line_ns, 1.0, None, None, count is not None, count)
    named = _with_places(main, [replace(first, hottest=hot, asleep_ns=asleep_ns), *rest])
    told = screen.no_findings(replace(measured, places=[named]))
    assert told.startswith("no findings") and told.endswith(said)
    with ProfileDB.open(str(tmp_path / "t.db")) as db:
        assert front.overview(db, replace(measured, places=[named]), 0)["nothing"] == told
    assert told in cell.fragment(replace(measured, places=[named]))


@pytest.mark.parametrize(("library_ns", "said"), [(60, "below one routine"), (40, "one routine")])
def test_time_in_a_library_is_not_said_to_be_in_the_routine_that_calls_it(
    library_ns, said, tmp_path
):
    """Of a package with compiled modules, whose own routines these may be, that is said, too."""
    path = "/v/lib/site-packages/click/core.py"
    called = call(Timer("Command.main", "click/core.py", 9, path=path), 1, library_ns)
    main = call(Timer("main", "black/cli.py", 3), 1, 100 - library_ns, [called])
    profile = profile_of(host(main, name="MainThread"))
    profile.metadata[COMPILED] = "black other"
    measured = _report(tmp_path, profile)
    assert screen.no_findings(measured).endswith(
        f" rules, but 100 % is {said}: main (black/cli.py:3), 1 call"
        "; black has compiled modules, whose routines are not seen"
    )
    assert "compiled modules of black and other" in " ".join(screen.text(measured).split())


def test_each_time_stands_beside_what_it_is_the_time_of(tmp_path):
    """The routine's with its calls beside its name, the line's beside the line, which may have run
    more often, or less; on the screen, in a narrow one, on the page and in a notebook."""
    copied = call(Timer("deepcopy", "copy.py", 9, path="/usr/lib/python3.12/copy.py"), 40, 60)
    step = call(Timer("Life.step", "life.py", 3), 40, 40, [copied])
    measured = _report(tmp_path, profile_of(host(step, name="MainThread")))
    (main,) = measured.places
    hot = HotLine("life.py", 5, 80, 1.0, "new = copy.deepcopy(self.grid)", None)
    place = replace(main.places[0], hottest=hot, source=hot.text)
    measured = replace(measured, places=[_with_places(main, [place])])
    assert (
        "  100 ns 100 % ████████ Life.step 40x  life.py:5 ~80 ns\n"
        "                        └ new = copy.deepcopy(self.grid) · deepcopy 60 ns\n"
    ) in screen.text(measured, WIDTH, 100)
    assert ("  100 ns 100 % Life.step 40x\n    └ life.py:5 ~80 ns  new =…\n") in screen.text(
        measured, 30, 100
    )
    with ProfileDB.open(str(tmp_path / "t.db")) as db:
        (row,) = front.overview(db, measured, 0)["groups"][0]["places"]
    assert (row["routine"], row["at"]) == ("Life.step 40x", "life.py:5 ~80 ns")
    assert row["about"] == ["deepcopy 60 ns"]
    assert ">Life.step 40x</td>" in cell.fragment(measured)
    assert ">life.py:5 ~80 ns</td>" in cell.fragment(measured)
    assert "taupy.last().report()" in cell.fragment(measured)
    linked = cell.fragment(measured, "page.html")
    assert "href='page.html'" in linked and ".report()" not in linked


def test_a_callee_of_other_lines_is_not_said_of_the_hottest_line(tmp_path):
    library = {"path": "/usr/lib/python3.12/re.py"}
    inner = call(Timer("compile", "re.py", 50, **library), 3, 20)
    found = call(Timer("findall", "re.py", 9, **library), 3, 30, [inner])
    step = call(Timer("step", "life.py", 3), 1, 50, [found])
    measured = _report(tmp_path, profile_of(host(step, name="MainThread")))
    place = measured.places[0].places[0]
    (entry,) = place.callees
    (within,) = (timer for timer in place.entries if timer != entry.timer)

    def details(seen, line_ns=80, text="text"):
        hot = HotLine("life.py", 5, line_ns, 1.0, text, None, below=seen)
        return screen.details_of(replace(place, hottest=hot))

    elsewhere = ["in other lines: findall 50 ns, 3 calls"]
    assert details({}) == elsewhere
    assert details({within: 30}) == details({entry.timer: 30}) == ["findall 50 ns, 3 calls"]
    assert details(None) == ["findall 50 ns, 3 calls"]
    # One look there, of many: what else it calls runs `compile`, too.
    assert details({within: 5}) == elsewhere
    # The line has most, not all of it; it is all that the line does, and named in it.
    assert details({within: 30}, 40) == ["findall 50 ns in all, 3 calls"]
    assert details({within: 50}, 50, "re.findall(x)") == []


def test_events_of_evidence_have_their_times_in_units():
    """Of another unit, it stands beside the name."""
    question = Question((1,), (), ("thread", "event"), values=("event.total", "event.count"))
    rows = (("0.0.0", "Thread CPU Time ns", 59_622_631.0, 1), ("0.0.1", "Growth KiB", 12.0, 1_200))
    headings = ("thread", "event", "event.total", "event.count")
    shown = front._evidence(Evidence(question, headings, rows, 2), {"0.0.0": "main thread"})
    assert shown["title"] == "Evidence: total and samples by thread and event"
    assert shown["headings"] == ["thread", "event", "total", "samples"]
    assert shown["rows"] == [
        ["main thread", "Thread CPU Time", "59.6 ms", "1"],
        ["0.0.1", "Growth KiB", "12", "1,200"],
    ]


def test_half_of_a_routine_in_other_lines_is_not_left_out(tmp_path):
    """The screen has a line for what takes a tenth of the time or more, where there is room."""
    library = {"path": "/usr/lib/python3.12/networkx/centrality.py"}
    first = call(Timer("betweenness_centrality", "centrality.py", 50, **library), 1, 48)
    second = call(Timer("greedy_modularity_communities", "centrality.py", 9, **library), 1, 40)
    step = call(Timer("<module>", "graph.py", 1), 1, 12, [first, second])
    measured = _report(tmp_path, profile_of(host(step, name="MainThread")))
    (main,) = measured.places
    place = main.places[0]
    timer = max(place.callees, key=lambda part: part.ns).timer
    text = "scores = nx.betweenness_centrality(graph, weight=distance_of)"
    hot = HotLine("graph.py", 4, 48, 1.0, text, None, below={timer: 48})
    group = _with_places(main, [replace(place, hottest=hot, source=text)])
    measured = replace(measured, places=[group])
    elsewhere = "in other lines: greedy_modularity_communities 40 ns"
    shown = screen.text(measured, WIDTH, HEIGHT)
    assert f"\n{' ' * 26}{elsewhere}\n" in shown and shown.count("betweenness") == 1
    assert elsewhere not in screen.text(measured, WIDTH, 1)
    assert screen.no_findings(measured).startswith("no findings: ")
    assert screen.text(measured, WIDTH, HEIGHT, verbose=True).count(elsewhere) == 1


def test_a_routine_stands_at_its_def(tmp_path):
    """Not at its decorator, nor does one that calls it: on the screen, in findings and JSON."""
    text = "\n@app.get(\n    '/author')\ndef author():\n    return tag()\n\n@cache\ndef tag():\n"
    inner = call(Timer("tag", "shop.py", 7), 400, 90)
    profile = profile_of(host(call(Timer("author", "shop.py", 2), 2, 10, [inner]), name="M"))
    profile = replace(profile, sources=[SourceFile("shop.py", "shop.py", 64 * "0", text=text)])
    with ProfileDB.open(_stored(tmp_path, profile)) as db:
        measured = report(db, db.latest())
    shown = screen.text(measured, WIDTH, 100)
    assert "tag 400x   shop.py:8\n" in shown and "author 2x  shop.py:4\n" in shown
    assert "└ def tag(): · called by author (defined in line 4)\n" in shown
    assert [row["line"] for row in document.document(measured)["places"]] == [8, 4]


@pytest.mark.parametrize(
    ("heading", "line", "shown"),
    [
        ("async def f(x):", 2, "work.py:2 ~30.0 ms"),
        ("def f(", 2, "work.py:2 ~30.0 ms"),
        ("@app.get('/')", 2, "work.py:2 ~30.0 ms"),
        ("def f(x): return x + 1", 1, "work.py:1 ~70.0 ms"),
    ],
)
def test_a_def_is_no_line_in_which_time_passes(heading, line, shown, tmp_path):
    """Looks find a call there as it begins; a routine in one line has no other."""
    profile = profile_of(host(call(Timer("f", "work.py", 1), 9, 100_000_000), name="MainThread"))
    profile.threads[0].lines = [
        LineTime(0, None, at, at, 0, 9, "cpu", looks, ns, looks, float(looks))
        for at, looks, ns in ((1, 70, 70_000_000), (2, 30, 30_000_000))
    ]
    text = f"{heading}\n    return x + 2\n"
    profile = replace(profile, sources=[SourceFile("work.py", "work.py", 64 * "0", text=text)])
    with ProfileDB.open(_stored(tmp_path, profile)) as db:
        measured = report(db, db.latest())
    assert shown in screen.text(measured, WIDTH, HEIGHT)
    (place,) = measured.places[0].places
    assert place.hottest is not None and place.hottest.line == line
    assert f"└ {heading}" not in screen.text(measured, WIDTH, HEIGHT) or line == 1


def test_a_line_has_the_kind_of_what_it_calls_and_not_of_what_runs_in_there(tmp_path):
    torch = "site-packages/torch/"
    engine = call(Timer("_engine_run_backward", f"{torch}autograd/graph.py", 8), 5, 80_000_000)
    backward = Timer("Tensor.backward", f"{torch}_tensor.py", 5, groups=("PHASE_BACKWARD",))
    train = call(Timer("train", "train.py", 3), 1, 9_000_000, [call(backward, 5, 1, [engine])])
    profile = profile_of(host(train, name="MainThread"))
    at = [timer.name for timer in profile.timers]
    within = at.index("_engine_run_backward")
    profile.threads[0].lines = [
        LineTime(at.index("train"), within, 4, 4, 4, 19, "cpu", 80, 80_000_000, 80, 80.0)
    ]
    with ProfileDB.open(_stored(tmp_path, profile)) as db:
        measured = report(db, db.latest())
        (line,) = own_code(db, measured.trial.id, measured.places).lines
    assert line.by_kind == {"backward": 80_000_000}


def test_healthy_workers_are_named_and_not_the_wait_for_them(tmp_path):
    """The main thread is right to wait for workers that are all busy."""
    ms = 1_000_000
    waits = call(Timer("_PollLikeSelector.select", "selectors.py", 9), 1, 95 * ms)
    main = call(Timer("main", "tool.py", 3), 1, 5 * ms, [waits])
    work = call(Timer("work", "tool.py", 8), 40, 90 * ms)
    measured = _report(tmp_path, profile_of(host(main, 0, name="MainThread"), host(work, 1)))
    assert not measured.judgement.findings
    told = screen.no_findings(measured)
    said = " rules, but 100 % of worker processes is one routine: work (tool.py:8), 40 calls"
    assert told.endswith(said)


@pytest.mark.parametrize(("of_library", "is_shown"), [(60, True), (40, False)])
def test_packages_are_named_where_own_code_itself_takes_less_than_half(
    of_library, is_shown, tmp_path
):
    """What libraries do for it is not its own, as in the strip above."""
    ms = 1_000_000
    solve = Timer("solve", "sympy/solve.py", 9, path="/v/lib/site-packages/sympy/solve.py")
    called = call(solve, 1, of_library * ms)
    main = call(Timer("main", "tool.py", 3), 1, (100 - of_library) * ms, [called])
    measured = _report(tmp_path, profile_of(host(main, name="MainThread")))
    assert ("\nby package:  sympy 60.0 ms\n" in screen.text(measured)) is is_shown
    assert [package["package"] for package in document.document(measured)["packages"]] == ["sympy"]


def test_workers_that_run_no_code_of_the_program_are_shown_if_it_waits_for_them(tmp_path):
    ms = 1_000_000
    served = call(Timer("_PollLikeSelector.select", "selectors.py", 9), 1, 95 * ms)
    main = call(Timer("main", "tool.py", 3), 1, 5 * ms, [served])
    work = call(Timer("_process_worker", "concurrent/futures/process.py", 8), 1, 90 * ms)
    profile = profile_of(host(main, 0, name="MainThread"), host(work, 1), host(work, 2))
    measured = _report(tmp_path, profile)
    shown = screen.text(measured)
    assert "waiting 95.0 ms 95 %" in shown
    assert [len(of.lanes) for of in measured.lanes] == [2]
    assert "process 1" in shown and "concurrent.futures calls 180 ms" in shown
    assert (
        "  180 ms 100 % ▓▓▓▓▓▓▓▓ _process_worker 2x  concurrent/futures/process.py:8\n"
        "                        └ C code that it calls, such as of a compiled module\n"
    ).replace("concurrent/futures/process", "…/process") in shown
    (told,) = document.document(measured)["routines"]
    assert (told["routine"], told["time_ns"], told["calls"]) == ("_process_worker", 180 * ms, 2)
    assert told["threads_group"] == "worker processes"
    page = front._group(measured, measured.places[-1])
    assert page["title"] == "2 worker processes, added up"
    assert [(row["routine"], row["ns"], row["about"]) for row in page["places"]] == [
        ("_process_worker 2x", 180 * ms, ["C code that it calls, such as of a compiled module"])
    ]
    packages = ["C code that concurrent.futures calls 180 ms"]
    assert page["notes"] == [{"title": "by package", "parts": packages}]
    assert "\nnext: taupy pprof 1 --thread 1.0.0 --sort exclusive" in shown


def test_rows_of_workers_have_their_imports_as_those_of_the_main_thread(tmp_path):
    """Workers that joblib spawns import scikit-learn anew, for most of their time."""
    ms = 1_000_000
    main = call(Timer("main", "tool.py", 3), 1, 5 * ms)
    imports = call(Timer("import sklearn", groups=("IMPORT",)), 1, 60 * ms)
    work = call(Timer("_process_worker", "multiprocessing/pool.py", 8), 1, 30 * ms, [imports])
    profile = profile_of(host(main, 0, name="MainThread"), host(work, 1), host(work, 2))
    shown = screen.text(_report(tmp_path, profile), WIDTH, 100)
    assert "in 2 worker processes, added up (% of that):\n" in shown
    assert "  120 ms  67 % ▒▒▒▒▒▒▒▒ imports  sklearn 120 ms\n" in shown
    assert " 60.0 ms  33 % ▓▓▓▓     _process_worker 2x" in shown


def flat(step_ns):
    """A program that reads and writes, below a launcher; each of 20 routines has little time."""
    parts = [call(Timer(f"part{at}", "a.py", 20 + at), 1, step_ns) for at in range(20)]
    read = call(Timer("Publisher.read", "a.py", 5), 3, 2, parts[:14])
    write = call(Timer("Publisher.write", "a.py", 6), 1, 1, parts[14:])
    publish = call(Timer("Publisher.publish", "a.py", 3), 1, 1, [read, write])
    imports = call(Timer("import a", groups=("IMPORT",)), 1, 10 * step_ns)
    main = call(Timer("main", "a.py", 2), 1, 1, [imports, publish])
    return profile_of(host(call(Timer("<module>", "a.py", 1), 1, 1, [main]), name="MainThread"))


def test_of_a_flat_run_the_calls_that_it_consists_of_are_shown(tmp_path):
    """On the screen, the page and in JSON; not where the rows themselves say most of it."""
    measured = _report(tmp_path, flat(1000))
    assert "\nPublisher.publish calls:  read 14.0 us, write 6.00 us\n" in screen.text(measured)
    told = document.document(measured)["division"]
    assert (told["routine"], told["time_ns"]) == ("Publisher.publish", 20_004)
    assert [(part["routine"], part["time_ns"], part["calls"]) for part in told["calls"]] == [
        ("Publisher.read", 14_002, 3), ("Publisher.write", 6_001, 1),
    ]  # fmt: skip
    (main,) = measured.places
    assert front._group(measured, main)["notes"] == [
        {"title": "Publisher.publish calls", "parts": ["read 14.0 us", "write 6.00 us"]}
    ]
    ns = 0.2 * main.places.whole
    large = [replace(place, share=0.2, ns=ns) for place in main.places if place.kind == "own"]
    assert "calls:" not in screen.text(replace(measured, places=[_with_places(main, large)]))


def test_of_tests_the_slowest_are_named(tmp_path):
    packages = "/venv/lib/python3.12/site-packages"
    runner = Timer("pytest_pyfunc_call", "_pytest/python.py", 180,
                   path=f"{packages}/_pytest/python.py")  # fmt: skip
    tests = [call(Timer(f"test_{at}", "test_it.py", 1 + at), 1, 100 * at) for at in range(1, 9)]
    measured = _report(tmp_path, profile_of(host(call(runner, 8, 5, tests), name="MainThread")))
    shown = screen.text(measured)
    assert "\nslowest tests:  test_8 800 ns, test_7 700 ns, test_6 600 ns" in shown
    assert not re.search("^ .* pytest_pyfunc_call", shown, re.MULTILINE)


def test_the_way_to_what_a_run_consists_of_ends_at_one_place(tmp_path):
    leaf = call(Timer("work", "a.py", 3), 1, 100)
    for at, own_ns in enumerate((5, 100)):  # of the latter, half is its own
        root = call(Timer("main", "a.py", 1), 1, own_ns, [leaf])
        assert divided(root, tmp_path / f"{at}.db") is None
    two = [call(Timer(f"f{at}", "a.py", 3 + at), 1, 50) for at in range(2)]
    found = divided(call(Timer("main", "a.py", 1), 1, 0, two), tmp_path / "two.db")
    assert [(part.timer.short_name, part.ns) for part in found.parts] == [("f0", 50), ("f1", 50)]


def divided(root, path):
    with database_at(str(path)) as db:
        add_profile(db, profile_of(host(root, name="MainThread")))
        calls = trial_of(db, db.latest()).calls
    return division(calls, calls.threads[0])


def test_a_finding_names_an_inner_function_as_everything_else_does(tmp_path):
    """`outer.inner`, not `outer.<locals>.inner`."""
    profile = gpu_faults.loader_with_few_workers()
    timers = [timer._replace(name=timer.name.replace("_BaseDataLoaderIter.", "load.<locals>."))
              for timer in profile.timers]  # fmt: skip
    found = _report(tmp_path, replace(profile, timers=timers)).judgement.findings
    sentences = " ".join(finding.sentence for finding in found)
    assert "load.__next__" in sentences and "<locals>" not in sentences


def test_details_leave_the_screen_before_places_and_findings_do(tmp_path):
    measured = _report(tmp_path, gpu_faults.compiled_again())
    full, narrow = screen.text(measured, WIDTH, 100), screen.text(measured, WIDTH, 10)
    assert "└ CatchErrorsWrapper.__call__ 8.00 s" in full
    assert "CatchErrorsWrapper.__call__ 8.00 s" not in narrow
    for kept in ("step 200x  train.py:1", "▲ large   recompilation", "next: taupy"):
        assert kept in narrow


def test_json_holds_findings_with_bounds_evidence_and_abstentions(tmp_path, capsys):
    path = _stored(tmp_path, gpu_faults.saved_each_step())
    document = json.loads(_printed(capsys, "--db", path, "--json"))
    assert document["trial"]["duration_ns"] == 7_400_000_000
    (finding,) = document["findings"]
    assert finding["kind"] == "checkpoints and logging"
    assert finding["saved_ns"] == 1_400_000_000
    assert finding["saved_share"] == pytest.approx(1.4 / 7.4)
    assert finding["speedup"] == pytest.approx(7.4 / 6.0)
    assert finding["confidence"] == "medium"
    (evidence,) = finding["evidence"]
    assert evidence["rows"][0]["inclusive time"] == 1_400_000_000
    assert evidence["rows"][0]["calls"] == 200
    assert {one["kind"] for one in document["abstentions"]} == {
        "memory growth",
        "loop over elements",
        "imports and start-up",
    }
    assert {one["phase"] for one in document["phases"]} >= {"forward", "checkpoint", "import"}


def test_no_name_of_a_program_reaches_the_terminal_as_it_is(tmp_path, capsys):
    saving = Timer(EVIL, "a.py", 1, groups=("PHASE_CHECKPOINT",))
    caller = Timer(f"f{EVIL}", f"{EVIL}.py", 1)
    root = call(".taupy application", 1, 0, [call(caller, 1, 0, [call(saving, 9, 2 * 10**9)])])
    path = _stored(tmp_path, profile_of(host(root), application=EVIL))
    for form in ([], ["--json"]):
        printed = _printed(capsys, "--db", path, *form)
        assert "checkpoints and logging" in printed
        assert not UNSAFE.search(printed)


@pytest.mark.parametrize("remark", ["lost", "callpaths", "children_unmeasured", "throttled"])
def test_no_rule_judges_a_part_of_the_evidence(remark, tmp_path):
    profile = gpu_faults.saved_each_step()
    profile.metadata[f"taupy.health.{remark}"] = "a part is missing"
    judgement = _report(tmp_path, profile).judgement
    assert judgement.findings == []
    assert all("a part is missing" in one.reason for one in judgement.abstentions)


def test_rules_of_the_gpu_abstain_where_its_records_are_not_whole(tmp_path):
    profile = gpu_faults.tiny_kernels()
    profile.metadata["taupy.health.gpu_dropped"] = "CUPTI dropped 12 records"
    judgement = _report(tmp_path, profile).judgement
    assert judgement.findings == []
    reasons = {one.kind: one.reason for one in judgement.abstentions}
    assert "CUPTI dropped 12 records" in reasons["tiny kernels"]
    assert "CUPTI dropped 12 records" not in reasons.get("data wait", "")


def test_what_saves_too_little_is_no_finding(tmp_path):
    """7 ms in each of 200 steps are a finding of 7.4 s; of a run a hundred times as long not."""
    profile = replace(gpu_faults.saved_each_step(), duration_ns=740_000_000_000)
    assert _report(tmp_path, profile).judgement.findings == []


def test_a_trial_without_any_call_tree_has_no_findings(tmp_path, capsys):
    profile = profile_of()
    profile.threads = []
    found = _report(tmp_path, profile)
    assert found.judgement.findings == []
    assert "no findings" in screen.text(found)


@pytest.mark.parametrize(
    ("heading", "shown"),
    [
        *((name, "712 ms") for name in ("inclusive", "time", "inclusive:time", "inclusive time")),
        *((name, "712 ms") for name in ("exclusive_ns", "wait_ns", "exclusive cpu_time")),
        *((name, "711,563,128") for name in ("calls", "times", "flop")),
    ],
)
def test_times_of_evidence_have_their_unit_on_the_page(heading, shown):
    assert front._evidence_cell(heading, 711_563_128) == shown


def test_imports_that_take_little_are_not_named():
    times = {"import torch": 9_900_000_000, "import numpy": 99_300_000}
    parts = [Part(TimerRow(name, name, None, None, "IMPORT"), ns, 1) for name, ns in times.items()]
    place = Place("imports", None, 10_000_000_000, 0.9, callees=parts)
    assert screen.text_of(place, 80) == "torch 9.90 s"


def test_a_finding_names_a_decorated_routine_by_its_def(tmp_path):
    """Whose code begins at the decorator; rules still find its source."""
    path = tmp_path / "shop.py"
    path.write_text(
        "import re\n@app.get(\n    '/author')\ndef author(i):\n    re.compile(f'a{i}')\n"
    )
    os.utime(path, (0, 0))
    author = call(Timer("author", "shop.py", 2, path=str(path)), 9, 10)
    profile = profile_of(host(author, name="M"), metadata={"Hostname": platform.node()})
    with ProfileDB.open(_stored(tmp_path, profile)) as db:
        trial = trial_of(db, db.latest())
        (timer,) = trial.calls.timers
    assert place(timer) == "author (shop.py:4)"
    found = source.function(trial, timer)
    assert found is not None and found.lineno == 4
