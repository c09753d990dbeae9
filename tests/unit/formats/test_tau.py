"""TAU's text files in every variant, and what is refused in them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.escaping import visible
from taupy.formats import registry
from taupy.formats.registry import IMPORT_NOTES, exported
from taupy.formats.tau import profiles as tau
from taupy.formats.tau import text as tau_text
from taupy.model import invariants
from taupy.model.profile import Metric, Timer, UserEvent
from taupy.model.progress import SILENT
from tests.builders import call, event, gpu_profile, host, profile_of, random_profile, small_profile
from tests.unit.formats import tau_files
from tests.unit.formats.comparing import (
    events,
    flat_by_name,
    one,
    paths,
    read,
    short_paths,
    threads,
)
from tests.unit.formats.tau_files import path, row

CUT = "(callers not recorded)"
ROOT = row(".TAU application", 1, 1, 2, 100, "TAU_UTILITY")


def thread_of(profile):
    (measured,) = profile.threads
    return measured


# --- flat profiles -----------------------------------------------------------


def test_a_flat_profile_shows_taus_numbers_and_names_no_callers(tmp_path):
    rows = [ROOT, row("main", 1, 2, 38, 98), row("f", 2, 0, 60, 60)]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    root = ".TAU application"
    assert short_paths(profile, thread_of(profile)) == {
        root: (1, 1, 100_000, 2_000),
        f"{root} > {CUT}": (0, 0, 0, 0),
        f"{root} > {CUT} > main": (1, 2, 98_000, 38_000),
        f"{root} > {CUT} > f": (2, 0, 60_000, 60_000),
    }
    assert invariants.check(profile) == []  # callees are not known: no law of sums can be asked for
    assert "does not have all callers" in profile.metadata["taupy.health.callpaths"]


def test_forks_leave_dumps_which_are_read_where_no_profile_is(tmp_path):
    for place, calls in (("0.0.0", 1), ("1.0.0", 2)):
        tau_files.write(
            tmp_path, {f"dump.{place}": tau_files.text([ROOT, row("f", calls, 0, 5, 5)])}
        )
    assert registry.recognised(tmp_path).name == "tau"
    profiles = read(tau, tmp_path)
    assert [one.threads[0].thread.node for one in profiles] == [0, 1]
    (alone,) = list(tau.read_together([tmp_path / "dump.1.0.0"], SILENT))
    assert alone.threads[0].thread.node == 1

    tau_files.profile(tmp_path, [ROOT])
    (profile,) = read(tau, tmp_path)
    assert len(profile.threads[0].tree) == 1
    assert "dump.0.0.0, dump.1.0.0" in profile.metadata[IMPORT_NOTES]


def test_call_paths_become_the_tree_they_describe(tmp_path):
    rows = [
        ROOT,
        row("main", 1, 2, 38, 98),
        path(".TAU application => main", 1, 2, 38, 98),
        row("f", 2, 0, 60, 60),
        path(".TAU application => main => f", 2, 0, 60, 60),
    ]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    assert short_paths(profile, thread_of(profile)) == {
        ".TAU application": (1, 1, 100_000, 2_000),
        ".TAU application > main": (1, 2, 98_000, 38_000),
        ".TAU application > main > f": (2, 0, 60_000, 60_000),
    }
    assert invariants.check(profile) == []


def test_rows_may_come_in_any_order(tmp_path):
    rows = [
        path(".TAU application => main => f", 2, 0, 60, 60),
        path(".TAU application => main", 1, 2, 38, 98),
        row("f", 2, 0, 60, 60),
        row("main", 1, 2, 38, 98),
        ROOT,
    ]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    assert set(short_paths(profile, thread_of(profile))) == {
        ".TAU application",
        ".TAU application > main",
        ".TAU application > main > f",
    }
    assert invariants.check(profile) == []


def test_cut_paths_keep_their_callers_and_change_no_sum(tmp_path):
    """TAU_CALLPATH_DEPTH=2: f is called by main and by g, h by f: from where is not known."""
    rows = [
        ROOT,
        row("main", 1, 2, 10, 98),
        row("g", 1, 1, 8, 40),
        row("f", 2, 4, 50, 80),
        row("h", 4, 0, 30, 30),
        path(".TAU application => main", 1, 2, 10, 98),
        path("main => g", 1, 1, 8, 40),
        path("main => f", 1, 2, 20, 48),
        path("g => f", 1, 2, 30, 32),
        path("f => h", 4, 0, 30, 30),
    ]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    measured = thread_of(profile)
    found = short_paths(profile, measured)
    cut = f".TAU application > {CUT}"
    assert found[f"{cut} > main > f"] == (1, 2, 48_000, 20_000)
    assert found[f"{cut} > f > h"] == (4, 0, 30_000, 30_000)
    assert found[f"{cut} > f"] == (0, 0, 0, 0)
    assert flat_by_name(profile, measured) == {
        ".TAU application": (1, 1, 100_000, 2_000),
        "main": (1, 2, 98_000, 10_000),
        "g": (1, 1, 40_000, 8_000),
        "f": (2, 4, 80_000, 50_000),
        "h": (4, 0, 30_000, 30_000),
    }


def test_cut_paths_of_a_recursive_routine_show_its_outermost_time(tmp_path):
    """f calls itself through g: 30 us of its 70 lie within other activations of f."""
    rows = [
        ROOT,
        row("f", 3, 2, 60, 70),
        row("g", 2, 2, 38, 50),
        path(".TAU application => f", 1, 2, 40, 70),
        path("f => g", 2, 2, 38, 50),
        path("g => f", 2, 0, 20, 30),
    ]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    sums = flat_by_name(profile, thread_of(profile))
    assert sums["f"] == (3, 2, 70_000, 60_000)
    assert sums["g"] == (2, 2, 50_000, 38_000)
    found = short_paths(profile, thread_of(profile))
    (hidden,) = [name for name in found if name.endswith("g > f")]
    assert hidden == f".TAU application > {CUT} > f > {CUT} > g > f"
    assert found[hidden] == (2, 0, 30_000, 20_000)


def test_rows_that_contradict_each_other_are_kept_as_tau_shows_them(tmp_path):
    rows = [ROOT, row("f", 1, 0, 5, 5), path(".TAU application => f", 7, 0, 5, 5)]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    assert flat_by_name(profile, thread_of(profile)) == {
        ".TAU application": (1, 1, 100_000, 2_000),
        "f": (1, 0, 5_000, 5_000),
        ".TAU application => f": (7, 0, 5_000, 5_000),
    }


# --- names -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        'one " quote',
        'three """ quotes',
        'ends with a quote"',
        '"begins with one',
        'looks like a row" 1 2 3 4 0 GROUP="X',
        "two\nlines",
        "trailing blank ",
        "  leading",
        "arrow => inside",
        "Event : like",
        "f [{file.py}{12}]",
        "f [{/full/file.py} {12}]",
        "f [{file.c} {10,2}-{20,3}]",
        "[CONTEXT] f",
        "tiny [{t.py}{2}] [THROTTLED]",
        "work [ <size> = <100000> ]",
        "café ∑",
        "{1,2} ",
        "x" * 5000,
        "",
    ],
)
def test_a_name_of_any_kind_stays_as_it_is(tmp_path, name):
    rows = [ROOT, row(name, 3, 0, 5, 6), row("other", 1, 0, 1, 1)]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    assert flat_by_name(profile, thread_of(profile))[name] == (3, 0, 6_000, 5_000)


def test_a_name_with_an_arrow_is_one_routine_in_paths_too(tmp_path):
    rows = [
        ROOT,
        row("a => b", 1, 1, 90, 98),
        row("b", 1, 0, 8, 8),
        path(".TAU application => a => b", 1, 1, 90, 98),
        path(".TAU application => a => b => b", 1, 0, 8, 8),
    ]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    assert set(short_paths(profile, thread_of(profile))) == {
        ".TAU application",
        ".TAU application > a => b",
        ".TAU application > a => b > b",
    }


def test_blanks_that_tau_puts_after_names_in_paths_are_not_part_of_them(tmp_path):
    rows = [
        ROOT,
        row("main", 1, 1, 90, 98),
        row("pytau ", 1, 0, 8, 8),
        path(".TAU application  => main  ", 1, 1, 90, 98),
        path(".TAU application  => main  => pytau", 1, 0, 8, 8),
    ]
    lines = [
        '"e" 1 5 5 5 25',
        '"e : main  => pytau  " 0 0 0 0 0',
        '"e : .TAU application" 1 5 5 5 25',
    ]
    profile = one(tau, tau_files.profile(tmp_path, rows, events=lines))
    assert set(short_paths(profile, thread_of(profile))) == {
        ".TAU application",
        ".TAU application > main",
        ".TAU application > main > pytau ",
    }
    assert invariants.check(profile) == []


def test_places_in_names_are_known(tmp_path):
    names = ["f [{a.py}{12}]", "g [{/x/b.py} {3}]", "h [{c.c} {1,2}-{3,4}]", "len"]
    profile = one(tau, tau_files.profile(tmp_path, [ROOT, *map(row, names)]))
    timers = {timer.full_name: timer for timer in profile.timers}
    assert timers[names[0]] == Timer("f", "a.py", 12, ("USER",))
    assert (timers[names[1]].short, timers[names[1]].path) == ("g", "/x/b.py")
    assert (timers[names[2]].short, timers[names[2]].path) == ("h", "c.c")
    assert timers["len"] == Timer("len", groups=("USER",))


def test_groups_are_ours_where_we_have_them(tmp_path):
    rows = [row("f", groups="TAU_PYTHON | TAU_USER"), row("k", groups="TAU_GPU_KERNEL|MINE")]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    groups = {timer.name: timer.groups for timer in profile.timers}
    assert groups["f"] == ("PYTHON", "USER")
    assert groups["k"] == ("GPU_KERNEL", "MINE")


# --- variants of the file ------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        '1 templated_functions\n# Name Calls Subrs Excl Incl ProfileCalls\n"f" 2 1 3 4 0 '
        'GROUP="TAU_USER"\n0 aggregates\n',
        '1 templated_functions\n"f" 2 1 3 4 0\n0 aggregates\n',  # the oldest
        "1 templated_functions_MULTI_TIME\n# Name Calls Subrs Excl Incl SumExclSqr ProfileCalls\n"
        '"f" 2 1 3 4 99 0 GROUP="TAU_USER" \n0 aggregates\n',
        # ParaProf's: no ` # `, reals, no blank at the end.
        "1 templated_functions_MULTI_TIME\n"
        "# Name Calls Subrs Excl Incl ProfileCalls<metadata></metadata>\n"
        '"f" 2 1 3.0 4.0 0 GROUP="TAU_USER"\n0 aggregates\n',
        '1 templated_functions\n"f" 2 1 3 4 2 GROUP="TAU_USER"\n1 1\n2 3\n0 aggregates\n',
        '1 templated_functions\r\n"f" 2 1 3 4 0 GROUP="TAU_USER" \r\n0 aggregates\r\n',
        '1 templated_functions\n"f" 2.0 1.0 3 4 0 GROUP="TAU_USER"\n1 aggregates\nwhatever\n',
    ],
)
def test_every_variant_of_the_file_is_read(tmp_path, content):
    profile = one(tau, tau_files.write(tmp_path, {"profile.0.0.0": content}))
    assert flat_by_name(profile, thread_of(profile)) == {"f": (2, 1, 4_000, 3_000)}


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("904.0", 904_000), ("9.9E8", 990_000_000_000), ("21.11", 21_110), ("0.001", 1),
     ("1.2345", 1234), ("1.2347", 1235), ("-3", -3_000), ("9007199254740993.123",
      9007199254740993123)],
)  # fmt: skip
def test_microseconds_become_whole_nanoseconds_the_nearest(tmp_path, text, nanoseconds):
    rows = [row("f", 1, 0, text, text)]
    profile = one(tau, tau_files.profile(tmp_path, rows))
    assert thread_of(profile).tree.exclusive["time"][0] == nanoseconds


def test_hardware_counters_of_old_files_are_no_times(tmp_path):
    content = '1 templated_functions_hw_counters\n"f" 1 0 5 5 0 GROUP="TAU_USER"\n0 aggregates\n'
    profile = one(tau, tau_files.write(tmp_path, {"profile.0.0.0": content}))
    assert profile.metrics == [Metric("Hardware Counter", "count")]
    assert thread_of(profile).tree.exclusive["Hardware Counter"].tolist() == [5]


def test_folders_of_metrics_are_one_trial(tmp_path):
    rows = [row(".TAU application", 1, 1, 1, 9), row("f", 1, 0, 8, 8)]
    cpu = [row(".TAU application", 1, 1, 0.5, 7.25), row("f", 1, 0, 6.75, 6.75)]
    misses = [row(".TAU application", 1, 1, 3, 1e16)]
    tau_files.write(
        tmp_path,
        {
            "MULTI__TIME/profile.0.0.0": tau_files.text(rows),
            "MULTI__TIME/profile.0.0.1": tau_files.text(rows),
            "MULTI__CPU_TIME/profile.0.0.0": tau_files.text(cpu, metric="CPU_TIME"),
            "MULTI__PAPI_X/profile.0.0.0": tau_files.text(misses, metric="PAPI:X"),
        },
    )
    profile = one(tau, tmp_path)
    assert {(m.name, m.unit) for m in profile.metrics} == {
        ("time", "ns"), ("CPU_TIME", "us"), ("PAPI:X", "count")
    }  # fmt: skip
    first, second = profile.threads
    assert set(first.tree.inclusive) == {"time", "CPU_TIME", "PAPI:X"}
    assert set(second.tree.inclusive) == {"time"}
    values = {path[-1][0]: values for path, values in paths(profile, first).items()}
    assert values["f"][2] == {
        "time": (8_000, 8_000),
        "CPU_TIME": (6.75, 6.75),
        "PAPI:X": (None, None),
    }
    assert values["f"][:2] == (1, 0)


def test_every_node_is_a_part_of_the_trial_and_common_metadata_stand_once(tmp_path):
    def file(host, thread=""):
        heading = tau_files.metadata(
            Metric_Name="TIME", Executable="/opt/bin/app", Hostname=host, Seen=thread
        )
        return tau_files.text([row("f", 1, 0, 5, 5)], heading=heading)

    tau_files.write(
        tmp_path,
        {"profile.0.0.0": file("a"), "profile.0.0.1": file("a", "later"),
         "profile.7.0.0": file("b")},
    )  # fmt: skip
    profiles = read(tau, tmp_path)
    assert [sorted(p.node_metadata) for p in profiles] == [[0], [7]]
    assert {p.uuid for p in profiles} == {""}
    assert profiles[0].application == profiles[1].application == "app"
    assert profiles[0].metadata == {"Executable": "/opt/bin/app"}
    assert profiles[0].node_metadata[0] == {"Hostname": "a", "Seen": "", "Seen [0.0.1]": "later"}
    assert profiles[1].node_metadata[7] == {"Hostname": "b", "Seen": ""}


def test_metadata_are_text_whatever_they_hold(tmp_path):
    block = (
        "<metadata><attribute><name>Metric Name</name><value>TIME</value></attribute>"
        "<attribute><name>a</name><value><![CDATA[<b> & </value> ]]></value></attribute>"
        "<attribute><name>c &amp; d</name><value>1 &lt; 2&#xa;3 &unknown; &#65;</value></attribute>"
        "<attribute><name>lines</name><value>one\ntwo</value></attribute></metadata>"
    )
    file = tau_files.text([row("f")], heading=f"{tau_files.HEADING} {block}")
    profile = one(tau, tau_files.write(tmp_path, {"profile.0.0.0": file}))
    assert {**profile.metadata, **profile.node_metadata[0]} == {
        "a": "<b> & </value> ", "c & d": "1 < 2\n3 &unknown; A", "lines": "one\ntwo"
    }  # fmt: skip


def test_summaries_of_paraprof_are_left_out_and_that_is_reported(tmp_path):
    tau_files.write(
        tmp_path,
        {
            "profile.0.0.0": tau_files.text([row("f", 1, 0, 5, 5)]),
            "profile.Mean": tau_files.text([row("f", 1, 0, 5, 5)]),
            "profile.Total": "whatever",
        },
    )
    profile = one(tau, tmp_path)
    assert len(profile.threads) == 1
    assert profile.metadata[IMPORT_NOTES].endswith("profile.Mean, profile.Total")


# --- user events -------------------------------------------------------------


def test_user_events_and_those_with_a_context(tmp_path):
    rows = [ROOT, row("f", 1, 0, 5, 5), path(".TAU application => f", 1, 0, 5, 5)]
    lines = [
        '"Bytes copied : host <=> device" 2 9 1 5 82',
        '"Heap (KB)" 3 7 1 4 66',
        '"Heap (KB) : .TAU application" 1 1 1 1 1',
        '"Heap (KB) : .TAU application => f" 2 7 4 5.5 65',
        '"with "quotes" : .TAU application" 1 nan nan nan nan',
    ]
    profile = one(tau, tau_files.profile(tmp_path, rows, events=lines))
    root = ((".TAU application", ("TAU_UTILITY",)),)
    assert events(profile, thread_of(profile)) == [
        ("Bytes copied : host <=> device", "", (), 2, 1, 9, 5, 82),
        ("Heap", "KB", root, 1, 1, 1, 1, 1),
        ("Heap", "KB", (*root, ("f", ("USER",))), 2, 4, 7, 5.5, 65),
        ('with "quotes"', "", root, 1, None, None, None, None),
    ]


def test_samples_of_an_event_that_no_context_has_stand_without_a_path(tmp_path):
    lines = ['"Heap" 3 7 1 4 66', '"Heap : .TAU application" 1 1 1 1 1']
    profile = one(tau, tau_files.profile(tmp_path, [ROOT], events=lines))
    root = ((".TAU application", ("TAU_UTILITY",)),)
    assert events(profile, thread_of(profile)) == [
        # 12 - 1 over 2 samples; the larger is 7, and the file does not tell the smaller
        ("Heap", "", (), 2, None, 7, 5.5, 65),
        ("Heap", "", root, 1, 1, 1, 1, 1),
    ]


def test_contexts_with_more_samples_than_their_event_stay_names(tmp_path):
    lines = ['"Heap" 3 7 1 4 66', '"Heap : .TAU application" 4 1 1 1 4']
    profile = one(tau, tau_files.profile(tmp_path, [ROOT], events=lines))
    assert [(event.name, event.row) for event in thread_of(profile).user_events] == [
        ("Heap", None), ("Heap : .TAU application", None)
    ]  # fmt: skip


def test_an_event_sampled_with_and_without_a_path_keeps_all_its_samples(tmp_path):
    inner = call("f", 1, 5, events=[event("loss", [3.0, 5.0], "")])
    profile = profile_of(host(call("main", 1, 1, [inner]), events=[event("loss", [1.0], "")]))
    target = tmp_path / "out"
    assert registry.writer("tau").write(profile, target, SILENT) == []
    text = (target / "profile.0.0.0").read_text()
    assert '"loss" 3 5 1 3 35' in text  # TAU's pprof shows this line
    assert '"loss : main" 1 1 1 1 1' in text
    assert '"loss : main => f" 2 5 3 4 34' in text
    (back,) = registry.recognised(target).read(target, SILENT)
    (measured,) = back.threads
    found = {
        back.timers[measured.tree.timer[e.row]].name: (
            e.name,
            e.count,
            e.minimum,
            e.maximum,
            e.mean,
        )
        for e in measured.user_events
    }
    assert found == {"main": ("loss", 1, 1, 1, 1), "f": ("loss", 2, 3, 5, 4)}


# --- what is refused ---------------------------------------------------------

GOOD = tau_files.text([ROOT, row("f", 2, 0, 60, 60)], events=['"e" 1 1 1 1 1'])


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        ("", "line 1", "not a TAU profile"),
        ("hello\n", "line 1", "not a TAU profile"),
        ("5 templated_functions\n", "line 2", "before 5 functions"),
        (GOOD.replace("2 templated", "3 templated"), "line 5", "function 3 of 3"),
        (GOOD.replace("2 templated", "1 templated"), "line 4", "aggregates"),
        (GOOD.replace("2 templated", "9" * 18 + " templated"), "line 5", "function 3 of"),
        (GOOD.replace("1 userevents", "2 userevents"), "line 9", "user event 2 of 2"),
        (GOOD.replace("1 userevents", "0 userevents"), "line 8", "more than the 0 user events"),
        (GOOD.replace('"f" 2', '"f" two'), "line 4", "invalid numbers"),
        (GOOD.replace('"f" 2', '"f" 1_0'), "line 4", "invalid numbers"),
        (GOOD.replace("60 60", "60 nan"), "line 4", "invalid numbers"),
        (GOOD.replace("60 60", "60 1e999"), "line 4", "invalid numbers"),
        (GOOD.replace('"f" 2', '"f" 1e30'), "line 4", "invalid numbers"),
        (GOOD.replace("60 60 0", "60 60 99"), "line 9", "99 invocations"),
        (GOOD.replace("</metadata>", ""), "line 9", "within its metadata"),
        ('1 templated_functions\n"never ends' + "\nx" * 500, "line 201", "does not end"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused_with_place_and_reason(
    tmp_path, content, place, reason
):
    file = tau_files.write(tmp_path, {"profile.0.0.0": content}) / "profile.0.0.0"
    with pytest.raises(FormatError) as refused:
        read(tau, tmp_path)
    message = str(refused.value)
    assert message.startswith(f"{file}: {place}: ")
    assert reason in message and "\n" not in message


def test_every_file_cut_short_is_refused_or_loses_only_what_is_not_counted(tmp_path):
    whole = threads(read(tau, tau_files.write(tmp_path / "whole", {"profile.0.0.0": GOOD})))
    for size in range(len(GOOD)):
        folder = tau_files.write(tmp_path / str(size), {"profile.0.0.0": GOOD[:size]})
        try:
            found = threads(read(tau, folder))
        except FormatError:
            continue
        (thread, tree, _) = found[0, 0, 0]
        assert (thread, tree) == whole[0, 0, 0][:2]
        assert GOOD[:size].count("aggregates")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_bytes_changed_at_random_are_refused_or_read_never_more(tmp_path_factory, data):
    content = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["change", "drop", "double"]))
        if kind == "change":
            content[place] = data.draw(st.integers(0, 255))
        elif kind == "drop":
            del content[place : place + data.draw(st.integers(1, 9))]
        else:
            content[place:place] = content[place : place + data.draw(st.integers(1, 40))]
        if not content:
            break
    folder = tmp_path_factory.mktemp("changed")
    (folder / "profile.0.0.0").write_bytes(content)
    try:
        for profile in read(tau, folder):
            invariants.mended(profile)
    except FormatError as problem:
        assert "\n" not in str(problem)


# --- there and back ----------------------------------------------------------


def there_and_back(profile, folder):
    target = folder / "out"
    lost = exported(profile, tau.FORMAT, target, SILENT)
    return lost, read(tau, target)


@pytest.mark.parametrize("made", [small_profile, gpu_profile])
def test_our_profiles_come_back_as_they_were(tmp_path, made):
    profile = made()
    _, back = there_and_back(profile, tmp_path)
    assert threads(back) == threads([profile])
    (again,) = back
    assert sorted(m.name for m in again.metrics) == sorted(m.name for m in profile.metrics)
    assert set(again.metrics) == set(profile.metrics)
    assert (again.application, again.experiment) == (profile.application, profile.experiment)
    assert again.started_at == profile.started_at
    assert again.duration_ns == profile.duration_ns
    assert profile.metadata.items() <= {**again.metadata, **again.node_metadata[0]}.items()


def test_other_times_of_ours_are_microseconds_in_the_file_and_come_back(tmp_path):
    values = {"time": 1_234_567, "cpu_time": 1_000_001, "bytes_dram": 77}
    metrics = [Metric("time", "ns"), Metric("cpu_time", "ns"), Metric("bytes_dram", "B")]
    profile = profile_of(host(call("main", 1, values)), metrics=metrics)
    _, (back,) = there_and_back(profile, tmp_path)
    assert threads([back]) == threads([profile])
    assert set(back.metrics) == set(metrics)
    written = (tmp_path / "out" / "MULTI__cpu_time" / "profile.0.0.0").read_text()
    assert '"main" 1 0 1000.001 1000.001 0 ' in written


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_any_lawful_profile_comes_back_as_it_was(tmp_path_factory, seed):
    profile = random_profile(Random(seed))
    _, back = there_and_back(profile, tmp_path_factory.mktemp("back"))
    assert threads(back) == threads([profile])


def cut_rows(profile, measured, depth):
    """TAU's rows of a tree with TAU_CALLPATH_DEPTH=depth: routines, and the last `depth` of paths.

    Inclusive counts activations that do not lie within others of the same row.
    """
    tree = measured.tree
    names = [profile.timers[timer].full_name for timer in tree.timer]
    whole = []
    found = {}
    for at, name in enumerate(names):
        above = tree.parent[at]
        whole.append((*(whole[above] if above >= 0 else ()), name))
        for size in {1, min(depth, len(whole[at]))}:
            key = whole[at][-size:]
            sums = found.setdefault(key, [0, 0, 0, 0])
            sums[0] += tree.calls[at]
            sums[1] += tree.subroutines[at]
            sums[2] += tree.exclusive["time"][at]
            lengths = range(size, len(whole[at]))
            if not any(
                whole[at][:end][-size:] == key and (size == 1 or min(depth, end) == size)
                for end in lengths
            ):
                sums[3] += tree.inclusive["time"][at]
    return found


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**9), depth=st.integers(2, 4))
def test_cut_call_paths_of_any_tree_keep_all_numbers_of_tau(tmp_path_factory, seed, depth):
    made = random_profile(Random(seed), nodes=1)
    measured = made.threads[0]
    found = cut_rows(made, measured, depth)
    rows = [
        (row if len(key) == 1 else path)(" => ".join(key), *values[:2], values[2], values[3])
        for key, values in found.items()
    ]
    folder = tau_files.profile(tmp_path_factory.mktemp("cut"), rows)
    profile = one(tau, folder)
    sums = flat_by_name(profile, thread_of(profile))
    assert sums == {
        key[0]: (calls, subroutines, whole * 1000, own * 1000)
        for key, (calls, subroutines, own, whole) in found.items()
        if len(key) == 1 and any((calls, subroutines, own, whole))
    }
    spelled = {}
    for place, values in short_paths(profile, thread_of(profile)).items():
        routines = place.split(f"{CUT} > ")[-1].split(" > ")
        if len(routines) > 1:
            spelled.setdefault(tuple(routines), []).append(values)
    for key, (calls, subroutines, own, whole) in found.items():
        if len(key) > 1:
            assert (calls, subroutines, whole * 1000, own * 1000) in spelled[key], key


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12).map(
    visible
) | st.sampled_from(["a => b", "a", "b", 'q"q', '"', " x ", "e : f", "[{f}{1}]", "g [{f.py}{2}]"])


@settings(max_examples=80, deadline=None)
@given(names=st.lists(NAMES, min_size=3, max_size=3, unique=True), event=NAMES)
@example(names=["1", "0", "0 => 0"], event="0")
def test_names_of_any_kind_come_back_through_files_of_tau(tmp_path_factory, names, event):
    first, second, third = (Timer(name, groups=("USER",)) for name in names)
    sample = UserEvent(event, "", 2, 1.0, 3.0, 2.0, 10.0)
    inner = call(second, 3, 40, [call(third, 2, 5)])
    profile = profile_of(
        host(call(".taupy application", 1, 1, [call(first, 2, 10, [inner])]), events=[sample])
    )
    folder = tmp_path_factory.mktemp("names")
    _, (back,) = there_and_back(profile, folder)
    ours, theirs = (flat_by_name(p, p.threads[0]) for p in (profile, back))
    assert theirs == ours
    assert [e.count for e in back.threads[0].user_events] == [2]


def test_events_with_samples_at_no_call_path_are_written_in_their_order(tmp_path):
    """A set of a dozen names has this order in one of millions of runs."""
    names = [f"event {number}" for number in range(12)]
    samples = [UserEvent(name, "", 1, 1.0, 1.0, 1.0, 1.0, at) for name in names for at in (1, None)]
    tree = call(".TAU application", 1, 1, [call("f", 1, 5)])
    there_and_back(profile_of(host(tree, events=samples)), tmp_path)
    lines = (tmp_path / "out" / "profile.0.0.0").read_text().splitlines()
    at_the_root = [line.split(" : ")[0] for line in lines if ' : .TAU application"' in line]
    assert at_the_root == [f'"{name}' for name in names]


def test_names_that_would_break_lines_are_written_as_escapes_and_that_is_reported(tmp_path):
    profile = profile_of(host(call("a\nb\x1b", 1, 5)))
    lost, (back,) = there_and_back(profile, tmp_path)
    assert lost == [
        "not written: 1 names with line breaks or control characters; they are written as escapes"
    ]
    assert [timer.name for timer in back.timers] == ["a\\nb\\x1b"]


def test_what_taus_files_cannot_carry_is_reported(tmp_path):
    lost, _ = there_and_back(gpu_profile(), tmp_path)
    assert lost == [
        "not written: launch configurations (grid, block, registers, occupancy); formats that "
        "hold them: chrome, perfetto",
        "not written: descriptions of GPUs; formats that hold them: chrome",
        "not written: single activities and their times; formats that hold them: chrome, perfetto, "
        "speedscope",
    ]


def test_recognised_by_content(tmp_path):
    folder = tau_files.profile(tmp_path / "a", [ROOT])
    assert tau.recognises(folder, b"")
    assert tau.recognises(folder / "profile.0.0.0", GOOD.encode()[:100])
    multi = tau_files.write(tmp_path / "b", {"MULTI__X/profile.0.0.0": GOOD})
    assert tau.recognises(multi, b"")
    (tmp_path / "c").mkdir()
    assert not tau.recognises(tmp_path / "c", b"")
    assert not tau.recognises(tmp_path / "x", b"hello")


def test_one_file_and_several_of_a_folder_are_read_too(tmp_path):
    rows = [ROOT]
    names = ["profile.0.0.0", "profile.0.0.1", "profile.Mean"]
    tau_files.write(tmp_path, {name: tau_files.text(rows) for name in names})
    assert len(one(tau, tmp_path / "profile.0.0.1").threads) == 1
    (several,) = tau.read_together([tmp_path / name for name in names], SILENT)
    assert len(several.threads) == 2
    assert "profile.Mean" in several.metadata[IMPORT_NOTES]


def test_a_hostile_header_costs_no_time(tmp_path):
    block = "<metadata>" + "<attribute><name>" * 50_000 + "<![CDATA[" * 50_000 + "</metadata>"
    assert tau_text.metadata(block) == {}
