"""Questions about values: sums worked out by hand, and parts that add up to the whole."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import UsageError
from taupy.model.formula import bound
from taupy.model.gpu import Configuration, Device, Launch
from taupy.model.profile import Thread, Timer, UserEvent
from taupy.model.question import EVENTS, LAUNCHES, VALUES, Condition, Question
from taupy.model.rows import ThreadRow
from taupy.model.table import Column, Table, combine
from taupy.profiledb import dimensions
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import DIMENSIONS
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import call, gpu_profile, host, profile_of, random_profile, small_profile, steps
from tests.unit.analysis.counted import counted_profile


def rows(table, *columns):
    """Labels -> numbers; timers by their short names, threads by their place."""

    def short(label):
        label = getattr(label, "short_name", label)
        return label[:3] if isinstance(label, ThreadRow) else label

    keys = zip(*(map(short, table.row_labels(name)) for name in table.codes), strict=True)
    keys = list(keys) or [()] * len(table)
    numbers = zip(*(table.column(*column) for column in columns), strict=True)
    return {
        key[0] if len(key) == 1 else key: number[0] if len(number) == 1 else number
        for key, number in zip(keys, numbers, strict=True)
    }


TIME = ("exclusive", "time")
WHOLE = ("inclusive", "time")


def test_a_question_by_nothing_is_the_whole(db):
    add_profile(db, small_profile())
    assert rows(values(db, Question((1,))), TIME) == {(): 162}
    counted = values(db, Question((1,), values=VALUES))
    assert rows(counted, ("calls",), ("subroutines",), WHOLE, TIME) == {(): (17, 15, 162, 162)}


def test_values_by_timer_are_sums_over_threads(db):
    """main 10 and 5, f 20 + 30, g 40 + 50 and 7; inclusive of recursive f counts once."""
    add_profile(db, small_profile())
    table = values(db, Question((1,), by=("timer",), values=VALUES))
    assert rows(table, TIME) == {"<module>": 15, "f": 50, "g": 97}
    assert rows(table, WHOLE) == {"<module>": 162, "f": 90, "g": 97}
    assert rows(table, ("calls",)) == {"<module>": 2, "f": 5, "g": 10}
    largest = values(db, Question((1,), by=("timer",), over="max", values=("calls", "exclusive")))
    assert rows(largest, TIME, ("calls",)) == {"<module>": (10, 2), "f": (50, 5), "g": (90, 10)}


def test_the_largest_rows_are_those_of_the_whole_answer(db):
    add_profile(db, small_profile())
    add_profile(db, small_profile(2))
    for trials in ((1,), (1, 2)):
        for by in (("callpath", "parent", "depth"), ("thread", "callpath"), ("timer",), ()):
            every = values(db, Question(trials, by=by, values=VALUES))
            few = values(db, Question(trials, by=by, values=VALUES, largest=3))
            assert (
                len(few) == min(3, len(every))
                and rows(few, TIME).items() <= rows(every, TIME).items()
            )
            assert list(few.column(*TIME)) == sorted(every.column(*TIME), reverse=True)[:3]


def test_what_was_not_measured_has_no_rows_or_none(db):
    add_profile(db, small_profile())
    only = values(db, Question((1,), ("misses",), by=("thread",)))
    assert rows(only, ("exclusive", "misses")) == {(0, 0, 0): 15}
    both = values(db, Question((1,), ("time", "misses"), by=("thread",)))
    found = rows(both, TIME, ("exclusive", "misses"))
    assert found == {(0, 0, 0): (150, 15), (0, 0, 1): (12, None)}
    assert len(values(db, Question((1,), ("nothing",), by=("thread",)))) == 0


def test_inclusive_of_a_group_counts_each_moment_once(db):
    """main [ f [ f, g ], g ]: f and g of group X, both in one file."""
    add_profile(db, small_profile())
    by_file = values(db, Question((1,), by=("file",), values=VALUES))
    assert rows(by_file, WHOLE, TIME) == {"app.py": (162, 162)}
    by_group = values(db, Question((1,), by=("group",), values=VALUES))
    assert rows(by_group, WHOLE, TIME, ("calls",)) == {
        "PYTHON": (162, 162, 17),
        "USER": (90, 50, 5),
    }
    user = Condition("group", ("user",))
    asked = Question((1,), by=("kind",), where=(user,), values=VALUES)
    assert rows(values(db, asked), WHOLE, TIME) == {"host": (90, 50)}


def test_conditions_leave_what_they_say(db):
    add_profile(db, small_profile())
    timers = Question((1,), by=("timer",))

    def where(*conditions, by=("timer",)):
        return rows(values(db, Question(timers.trials, by=by, where=conditions)), TIME)

    assert where(Condition("thread", ("0.0.1",))) == {"<module>": 5, "g": 7}
    assert where(Condition("timer", ("g [{app.py}{9}]",))) == {"g": 97}
    assert where(Condition("depth", (1,), "at most"), by=("depth",)) == {0: 15, 1: 20 + 50 + 7}
    assert where(Condition("inclusive", (90,), "at least"), by=("callpath", "timer")).keys() == {
        key for key in where(by=("callpath", "timer")) if key[1] in ("<module>", "f")
    } - {key for key, time in where(by=("callpath", "timer")).items() if time == 30}
    assert where(Condition("file", ("other.py",))) == {}
    with pytest.raises(UsageError, match=r"unknown dimension 'colour' .*thread.*meta.NAME"):
        where(Condition("colour", ("red",)))


def test_rows_chosen_from_a_table_are_the_answer_with_the_condition(db):
    add_profile(db, gpu_profile())
    by = ("thread", "callpath", "parent", "timer")
    whole = values(db, Question((1,), by=by, values=VALUES))
    host = values(db, Question((1,), by=by, where=(Condition("kind", ("host",)),), values=VALUES))
    chosen = whole.where("thread", lambda thread: thread.kind == "host")
    assert 0 < len(host) < len(whole)
    assert [[*chosen.labels[name]] for name in ("thread", "timer")] == [
        [*host.labels[name]] for name in ("thread", "timer")
    ]
    assert [chosen.row_labels(name) for name in by] == [host.row_labels(name) for name in by]
    assert [*map(list, chosen.columns.values())] == [*map(list, host.columns.values())]
    assert whole.where("thread", lambda thread: True) is whole


def test_kernels_stand_apart_from_the_host(db):
    add_profile(db, gpu_profile())
    assert rows(values(db, Question((1,), by=("kind",))), TIME) == {"host": 500, "gpu": 7800}
    by_device = values(db, Question((1,), by=("device", "timer")))
    assert rows(by_device, TIME)[(0, 1), "gemm"] == 5000
    assert rows(values(db, Question((1,), by=("gpu",))), TIME) == {"NVIDIA H200": 8300}


def test_kernels_have_a_dimension_of_their_own(db):
    add_profile(db, gpu_profile())
    by_kernel = rows(values(db, Question((1,), by=("kernel",))), TIME)
    # 500 of the host, 2000 of copies
    assert by_kernel == {"gemm": 5000, "relu": 800, None: 2500}


def test_worker_processes_belong_to_the_rank_that_started_them(db):
    """Ranks 0 and 1 of two; rank 1 started node 3, which started node 5."""
    processes = {0: (100, 1), 1: (101, 1), 3: (130, 101), 5: (150, 130)}
    add_profile(db, profile_of(
        *(host(call("main", 1, 10 ** node), node=node) for node in processes),
        node_metadata={
            node: {"Process ID": str(own), "Parent Process ID": str(parent)}
            for node, (own, parent) in processes.items()
        },
    ))  # fmt: skip
    assert rows(values(db, Question((1,), by=("rank",))), TIME) == {0: 1, 1: 101010}
    only = Question((1,), by=("node",), where=(Condition("rank", (1,)),))
    assert rows(values(db, only), TIME) == {1: 10, 3: 1000, 5: 100000}


def test_chosen_call_paths_alone_count(db):
    add_profile(db, small_profile())
    every = values(db, Question((1,), by=("callpath",)))
    paths, numbers = every.row_labels("callpath"), every.column(*TIME)
    for where in (Condition("callpath", (paths[1],)),), (Condition("callpath", ()),):
        chosen = values(db, Question((1,), by=("callpath",), where=where))
        wanted = dict(zip(paths, numbers, strict=True)) if where[0].labels else {}
        assert rows(chosen, TIME) == {path: wanted[path] for path in wanted if path == paths[1]}


def test_many_trials_are_one_statement(db):
    """Application and metadata are labels; what a trial has none of stands under None."""
    for number in range(1, 7):
        more = {"metadata": {"library": "jax" if number > 2 else "torch"}} if number < 6 else {}
        add_profile(
            db,
            profile_of(
                host(call("main", 1, number)), number=number, application="ab"[number % 2], **more
            ),
        )
    statements = []
    db.connection.set_trace_callback(statements.append)
    table = values(db, Question(tuple(range(1, 7)), by=("application", "meta.library")))
    db.connection.set_trace_callback(None)
    assert sum("timer_value" in text for text in statements) == 1
    assert rows(table, TIME) == {
        ("b", "torch"): 1,
        ("a", "torch"): 2,
        ("b", "jax"): 3 + 5,
        ("a", "jax"): 4,
        ("a", None): 6,
    }


@pytest.mark.parametrize("by", [("timer",), ("file",), ("group",), ("callpath", "timer")])
def test_more_routines_than_a_statement_lists_have_the_same_labels(db, monkeypatch, by):
    """Some have several groups, some are in one of the trials only, and one trial is not asked
    for."""
    for number, names in enumerate(("ab", "bc", "cd"), 1):
        below = [
            call(Timer(name, f"{name}.py", 1, groups=(*groups, "PYTHON")), 1, 5)
            for name in names
            for groups in ((), ("LAYER",))
        ]
        add_profile(db, profile_of(host(call("root", 1, 1, below)), number=number))
    question = Question((1, 2), by=by, values=VALUES)
    listed = values(db, question)
    monkeypatch.setattr(dimensions, "_MOST_IDS", 1)
    assert values(db, question) == listed
    assert len(listed) == {"file": 4, "group": 2}.get(by[0], 7)


def test_metrics_that_go_together_are_summed_where_all_were_measured(db):
    add_profile(db, counted_profile())
    asked = Question((1,), ("warps_launched", "time"), by=("kind",), together=True)
    assert rows(values(db, asked), TIME, ("exclusive", "warps_launched")) == {
        "gpu": (5800, 5000)  # without the 200 ns of copy_kernel, which was not counted
    }
    apart = Question((1,), ("warps_launched", "time"), by=("kind",))
    assert rows(values(db, apart), TIME)["gpu"] == 6000


def test_a_sum_of_several_metrics_takes_what_there_is(db):
    main = call("main", 1, {"time": 1, "a": 2, "b": 30}, [call("f", 1, {"time": 1, "a": 5})])
    profile = profile_of(host(main))
    tree = profile.threads[0].tree
    for columns in (tree.exclusive, tree.inclusive):
        columns["b"] = type(columns["b"])("d", [30.0, math.nan])
    add_profile(db, profile)
    asked = Question((1,), ("sum(a, b, c)", "first(b, a)", "sum(c, d)"), by=("timer",))
    table = values(db, asked)
    assert rows(table, ("exclusive", "sum(a, b, c)")) == {"main": 32, "f": 5}
    assert rows(table, ("exclusive", "first(b, a)")) == {"main": 30, "f": 5}
    assert rows(table, ("exclusive", "sum(c, d)")) == {"main": None, "f": None}


def test_units_that_differ_between_trials_are_refused(db):
    for number, unit in ((1, "count"), (2, "line")):
        profile = profile_of(host(call("main", 1, {"time": 1, "misses": 2})), number=number)
        profile.metrics = [metric._replace(unit=unit) if hasattr(metric, "_replace") else
                           type(metric)(metric.name,
                                        unit if metric.name == "misses" else metric.unit)
                           for metric in profile.metrics]  # fmt: skip
        add_profile(db, profile)
    with pytest.raises(UsageError, match="'misses' has the units count and line"):
        values(db, Question((1, 2), ("misses",)))
    assert rows(values(db, Question((1, 2))), TIME) == {(): 2}
    # The name of another metric may hold this one's.
    assert values(db, Question((1, 2), ("cache_misses",))).column("exclusive", "cache_misses") == (
        None,
    )


def test_a_question_is_printed_and_kept():
    asked = Question(
        (1, 2), ("time", "first(a, b)"), ("thread", "timer"),
        (Condition("kind", ("host",)), Condition("depth", (3,), "at most")), "max", VALUES, True,
    )  # fmt: skip
    assert Question.of_text(asked.text()) == asked
    assert str(asked) == (
        "calls, subroutines, inclusive, exclusive of time, first(a, b) by thread, timer "
        "where kind in host and depth at most 3 over threads: max in trials 1, 2"
    )


def test_launches_are_summed_by_what_is_known_of_them(db):
    """gemm: 8 launches of 4400 ns in one configuration, 2 of 600 ns in another."""
    add_profile(db, gpu_profile())
    gpu = (Condition("kernel", ("gemm",)),)
    asked = ("launch.count",), ("launch.time",), ("launch.shortest",), ("launch.longest",)
    whole = values(db, Question((1,), (), ("kernel",), gpu, values=LAUNCHES))
    assert rows(whole, *asked) == {"gemm": (10, 5000, 290, 600)}
    apart = values(db, Question((1,), (), ("configuration",), gpu, values=LAUNCHES))
    assert sorted(apart.column("launch.count")) == [2, 8]
    assert not len(values(db, Question((1,), (), ("kernel",), (
        Condition("kind", ("host",)),), values=LAUNCHES)))  # fmt: skip


def test_user_events_are_summed_over_threads_and_call_paths(db):
    add_profile(db, small_profile())
    table = values(db, Question((1,), (), ("event",), values=EVENTS))
    found = rows(table, *((value,) for value in EVENTS))
    assert found == {("memory", "bytes"): (3, 12, 2, 6), ("read", "bytes"): (2, 4, 1, 3)}
    by_timer = values(db, Question((1,), (), ("timer",), values=("event.total",)))
    assert rows(by_timer, ("event.total",)) == {None: 12, "g": 4}


def test_one_question_has_one_source(db):
    with pytest.raises(UsageError, match="calls, for launches or for user events"):
        values(db, Question((1,), values=("calls", "launch.count")))
    with pytest.raises(UsageError, match="'configuration' is a dimension of launches on GPUs only"):
        values(db, Question((1,), by=("configuration",)))
    with pytest.raises(UsageError, match="'event' is a dimension of user events only"):
        values(db, Question((1,), (), ("event",), values=("launch.count",)))


# --- parts add up ------------------------------------------------------------


GROUPS = {
    "t0": ("LAYER",),
    "t1": ("LAYER", "PHASE_BACKWARD"),
    "t2": ("PHASE_FORWARD",),
    "t3": ("PHASE_BACKWARD",),
    "t4": ("GPU_KERNEL",),
    "t5": ("PYTHON", "USER"),
    "root": ("TAUPY",),
}


def in_a_network(profile):
    """The profile with timers that are layers, phases and kernels, and one stream a process."""
    profile.timers = [
        timer._replace(groups=GROUPS[timer.name], short=f"short {timer.name}")
        for timer in profile.timers
    ]
    for thread in profile.threads:
        if thread.thread.thread == 2:
            thread.thread = Thread(thread.thread.node, 1, 2, "stream", "stream 7")
    profile.devices = [Device(node, 0, f"GPU {node}") for node in range(2)]
    return profile


def add_launches_and_events(thread, random):
    """Some of a few configurations at random call paths; times and events not known everywhere."""
    for _ in range(random.randrange(6)):
        count, size = random.randrange(1, 5), random.randrange(1, 3)
        untimed = random.randrange(count + 1)
        times = [random.randrange(1, 99) for _ in range(count - untimed)]
        thread.launches.append(
            replace(
                Launch.of_times(times, count),
                row=random.randrange(len(thread.tree)),
                configuration=Configuration(
                    (size, 1, 1), occupancy=random.choice([None, 0.25, 0.5])
                ),
                bytes=random.choice([None, 8]),
            )
        )
        row = random.choice([None, random.randrange(len(thread.tree))])
        mean = random.choice([random.random(), math.nan])
        thread.user_events.append(
            UserEvent(
                name=random.choice(["loss", "batch"]),
                unit="",
                count=count,
                minimum=mean,
                maximum=mean,
                mean=mean,
                sum_squares=mean,
                row=row,
            )
        )


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Three random trials; a second metric is of floats and not measured everywhere."""
    path = tmp_path_factory.mktemp("fleet") / "taupy.db"
    random = Random(14)
    with ProfileDB.open(path, create=True) as db:
        for number in range(1, 4):
            profile = in_a_network(random_profile(random, number))
            profile.application = random.choice("ab")
            profile.metadata = {"library": random.choice(["torch", "jax"])}
            for thread in profile.threads[::2]:
                tree = thread.tree
                share = [random.random() for _ in tree.timer]
                share = [math.nan if one < 0.2 else one for one in share]
                whole = [0.0 if one != one else one for one in share]
                for row in range(len(whole) - 1, 0, -1):
                    whole[tree.parent[row]] += whole[row]
                tree.exclusive["share"] = type(tree.calls)("d", share)
                tree.inclusive["share"] = type(tree.calls)("d", whole)
                add_launches_and_events(thread, random)
                thread.steps = [steps([random.randrange(1, 999) for _ in range(3)])]
            profile.metrics = [*profile.metrics, type(profile.metrics[0])("share", "s")]
            add_profile(db, profile)
    with ProfileDB.open(path) as db:
        yield db


OF_ONE_SOURCE = ("configuration", "event", "step", "line")
ANY = ["meta.library", *(name for name in DIMENSIONS if name not in OF_ONE_SOURCE)]
PLACES = [f"{node}.{place}" for node in range(2) for place in ("0.0", "0.1", "1.2")]

questions = st.builds(
    Question,
    trials=st.just((1, 2, 3)),
    metrics=st.sampled_from([("time",), ("share",), ("time", "share"), ("first(share, time)",)]),
    by=st.lists(st.sampled_from(ANY), unique=True, max_size=3).map(tuple),
    where=st.lists(
        st.sampled_from(
            [
                Condition("timer", ("t1 [{r.py}{1}]", "t2 [{r.py}{2}]", "root")),
                Condition("depth", (2,), "at most"),
                Condition("application", ("a",)),
                Condition("node", (1,)),
                Condition("layer", ("short t0",)),
                Condition("phase", ("backward", None)),
            ]
        ),
        max_size=2,
    ).map(tuple),
    over=st.sampled_from(["sum", "max"]),
    values=st.sampled_from([VALUES, ("exclusive",), ("calls",), ("inclusive", "exclusive")]),
    together=st.booleans(),
)
conditions = st.sampled_from([(), (Condition("depth", (2,), "at most"),)])
beside = st.one_of(
    *(
        st.builds(
            Question,
            trials=st.just((1, 2, 3)),
            metrics=st.just(()),
            by=st.lists(st.sampled_from([*ANY, own]), unique=True, max_size=3).map(tuple),
            where=conditions,
            values=st.lists(st.sampled_from(values), unique=True, min_size=1).map(tuple),
        )
        for own, values in (("configuration", LAUNCHES), ("event", EVENTS))
    )
)

of_steps = st.builds(
    Question,
    trials=st.just((1, 2, 3)),
    by=st.lists(
        st.sampled_from(["step", "phase", "trial", "thread", "rank", "application"]),
        unique=True,
        max_size=3,
    ).map(tuple),
    where=st.sampled_from(["1", "2"]).map(lambda step: (Condition("step", (step, "3")),)),
    over=st.sampled_from(["sum", "max"]),
    values=st.sampled_from([VALUES, ("exclusive",), ("calls",)]),
)


def told(table):
    """Labels -> numbers, whatever the order of rows."""
    keys = zip(*(table.row_labels(name) for name in table.codes), strict=True)
    keys = list(keys) or [()] * len(table)
    return dict(zip(keys, zip(*table.columns.values(), strict=True), strict=True))


@settings(max_examples=50)
@given(
    question=questions | beside | of_steps,
    parts=st.lists(st.integers(0, 2), min_size=18, max_size=18),
)
def test_the_parts_of_a_question_add_up_to_the_whole(fleet, question, parts):
    """The data cut in three, by trials and threads; sums of each part together are the whole."""
    tables = []
    for part in range(3):
        for trial in question.trials:
            places = [
                place
                for at, place in enumerate(PLACES)
                if parts[(trial - 1) * len(PLACES) + at] == part
            ]
            where = (*question.where, Condition("thread", tuple(places)))
            asked = Question(**{**fields(question), "trials": (trial,), "where": where})
            tables.append(values(fleet, asked))
    whole, added = told(values(fleet, question)), told(combine(tables))
    assert added.keys() == whole.keys()
    for key, numbers in whole.items():
        for number, other in zip(numbers, added[key], strict=True):
            if isinstance(number, float):
                assert other == pytest.approx(number, rel=1e-12)
            else:
                assert other == number and type(other) is type(number)


def test_the_phases_of_a_step_are_its_time(fleet):
    whole = values(fleet, Question((1, 2, 3), by=("trial", "thread", "step")))
    parts = values(fleet, Question((1, 2, 3), by=("trial", "thread", "step", "phase")))
    assert {*parts.row_labels("phase")} == {"data", None}
    assert told(parts.by("trial", "thread", "step")) == told(whole)
    alone = values(fleet, Question((2,), by=("step",), where=(Condition("phase", ("data",)),)))
    assert {*told(alone)} == {("1",), ("2",), ("3",)}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question((1,), by=("step", "layer")), "divided by layer"),
        (Question((1,), by=("step",), where=(Condition("timer", ("x",)),)), "divided by routine"),
        (Question((1,), ("share",), ("step",)), "'share' was not measured step by step"),
        (Question((1,), (), ("step",), values=LAUNCHES), "are not recorded step by step"),
    ],
)
def test_what_is_not_known_of_steps_is_refused(fleet, question, said):
    with pytest.raises(UsageError, match=said):
        values(fleet, question)


def fields(question):
    return {name: getattr(question, name) for name in Question.__dataclass_fields__}


@given(st.permutations(range(4)))
def test_the_order_of_parts_does_not_matter(order):
    def part(label, number):
        return Table({"a": [0]}, {"a": [label]}, {Column("calls"): [number]}, 1)

    tables = [part("x", 1), part("y", 2), part("x", None), part("x", 4)]
    assert told(combine([tables[at] for at in order])) == {("x",): (5,), ("y",): (2,)}


def test_tables_of_different_questions_do_not_combine():
    one = Table({"a": [0]}, {"a": ["x"]}, {Column("calls"): [1]}, 1)
    with pytest.raises(ValueError, match="different questions"):
        combine([one, Table({}, {}, {Column("calls"): [1]}, 1)])


def test_inclusive_values_are_not_added_over_timers(db):
    add_profile(db, small_profile())
    table = values(db, Question((1,), by=("thread", "timer"), values=VALUES))
    assert {column.value for column in table.by("thread").columns} == {
        "calls", "subroutines", "exclusive",
    }  # fmt: skip
    assert rows(table.by("timer"), WHOLE) == {"<module>": 162, "f": 90, "g": 97}


def test_no_value_of_a_ratio_can_be_added(db):
    """The values of a formula are bare floats: sums of them are made of a table only."""
    add_profile(db, counted_profile())
    ratio = bound(_node("warps_launched / inst_issued"), {"warps_launched": "warp",
                                                         "inst_issued": "inst"})  # fmt: skip
    table = values(db, Question((1,), ratio.texts, by=("kind", "timer"), together=True))
    assert ratio.values(table.by("kind"), "exclusive") == [5000 / 510000]
    assert {type(one) for one in ratio.values(table, "exclusive")} == {float}


def _node(text):
    from taupy.model.expression import parse

    return parse(text)


def test_a_call_path_inherits_layer_and_phase_from_the_nearest_caller_with_one(db):
    """An estimator of scikit-learn is a layer, but no forward pass."""
    inner = call("gemm", 1, 4)
    fitted = call(Timer("fit", groups=("ESTIMATOR", "LAYER")), 1, 2, [inner])
    linear = call(Timer("head [Linear]", groups=("LAYER",), short="head"), 1, 8, [inner])
    back = call(Timer("backward", groups=("PHASE_BACKWARD",)), 1, 16, [linear])
    add_profile(db, profile_of(host(call("main", 1, 1, [fitted, linear, back]))))
    by = Question((1,), by=("layer", "phase"), values=("exclusive",))
    assert rows(values(db, by), ("exclusive", "time")) == {
        (None, None): 1,
        ("fit", None): 6,
        ("head", "forward"): 12,
        ("head", "recompute"): 12,
        (None, "backward"): 16,
    }


def work_of_labels(db, name: str, depth: int) -> int:
    """Instructions of SQLite, in thousands, for the labels of so many nested call paths."""
    root = call("leaf")
    for level in range(depth):
        root = call(f"f{level % 7}", 1, 1, [root])
    trial = add_profile(db, profile_of(host(root), number=depth))
    done = 0

    def count():
        nonlocal done
        done += 1
        return 0

    db.connection.set_progress_handler(count, 1000)
    values(db, Question((trial,), by=("callpath", name), values=("exclusive",)))
    db.connection.set_progress_handler(None, 0)
    return done


@pytest.mark.parametrize("name", ["layer", "layer_type", "phase"])
def test_labels_of_deep_call_paths_take_time_for_each_once(db, name):
    """Not once for each call path below it."""
    assert work_of_labels(db, name, 800) < 6 * work_of_labels(db, name, 200)
