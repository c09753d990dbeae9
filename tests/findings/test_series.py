"""Findings in series: steps that take longer, and memory that grows."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from taupy.model.profile import Profile, Steps, Timer
from taupy.model.sampled import GROWTH, KIB, RESIDENT, STATES
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report.report import report
from tests.builders import SAMPLED_FROM_NS, call, event, host, profile_of, samples

MS = 1_000_000


def _judgement(tmp_path, profile: Profile):
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        add_profile(db, profile)
        return report(db, db.latest()).judgement


def _training(times_ms, runnable_ms=1.0) -> Profile:
    """Steps of these times; what is above 10 ms of each is in its data phase."""
    steps = Steps("training")
    steps.phases["data"] = array("q")
    for number, time in enumerate(times_ms, 1):
        row = (number, 1, SAMPLED_FROM_NS + number * 100 * MS, int(time * MS), int(time * MS), 8)
        for name, value in zip(
            ("number", "count", "start_ns", "time_ns", "longest_ns", "samples"), row, strict=True
        ):
            getattr(steps, name).append(value)
        steps.phases["data"].append(int(max(0, time - 10) * MS))
    seen = [
        event(STATES[0], [sum(times_ms) * MS], "ns"),
        event(STATES[1], [runnable_ms * MS], "ns"),
    ]
    whole = int(sum(times_ms) * MS)
    profile = profile_of(host(call("main", 1, whole), events=seen), duration_ns=whole)
    profile.threads[0].steps = [steps]
    return profile


def test_outliers_are_found_with_the_phase_that_makes_them(tmp_path):
    times = [10.0 + n % 3 * 0.1 for n in range(60)]
    for at in (20, 30, 40):
        times[at] = 60.0
    (finding,) = _judgement(tmp_path, _training(times)).findings
    assert finding.kind == "step time"
    assert "3 of 60 steps" in finding.sentence
    assert "in data" in finding.sentence
    assert finding.sentence.endswith("(taupy steps 1)") and finding.attempt == ""
    assert finding.saved_ns == pytest.approx(3 * 49.9 * MS)


def test_steps_that_take_longer_and_longer_are_found(tmp_path):
    (finding,) = _judgement(tmp_path, _training([10.0 + 0.2 * n for n in range(60)])).findings
    assert "longer and longer" in finding.sentence and finding.attempt == ""
    assert "in data" in finding.sentence


OTHER_STEPS = {
    "a warm-up": [500.0, 40.0, *[10.0] * 60],
    "jitter": [10.0 + n % 5 * 0.3 for n in range(60)],
    "too few": [10.0] * 8 + [30.0] * 4,
    "faster and faster": [13.0 - 0.05 * n for n in range(60)],
}


@pytest.mark.parametrize("series", OTHER_STEPS)
def test_other_series_of_steps_are_none(series, tmp_path):
    assert _judgement(tmp_path, _training(OTHER_STEPS[series])).findings == []


def test_on_a_busy_machine_steps_are_not_judged(tmp_path):
    judgement = _judgement(tmp_path, _training([10.0] * 40 + [60.0] * 5, runnable_ms=200))
    assert judgement.findings == []
    reasons = {one.kind: one.reason for one in judgement.abstentions}
    assert "waited for a processor" in reasons["step time"]


def _growing(kib: list[float], calls: int = 50) -> Profile:
    """Memory over time, and a routine that has touched what is there more at the end."""
    series = samples(RESIDENT, KIB, kib)
    whole = 1000 * len(kib)
    keep = call(
        Timer("keep", "a.py", 3), calls, whole,
        events=[event(GROWTH, [max(0.0, kib[-1] - kib[0])], KIB)],
    )  # fmt: skip
    profile = profile_of(
        host(call("main", 1, 0, [keep]), events=[event(RESIDENT, kib, KIB)]),
        duration_ns=whole, started_at=SAMPLED_FROM_NS / 1e9,
    )  # fmt: skip
    profile.threads[0].samples = [series]
    return profile


def test_memory_that_grows_to_the_end_is_no_finding_if_nothing_is_seen_that_holds_it(tmp_path):
    kib = [50_000.0 + 20_000 * n for n in range(20)]
    judgement = _judgement(tmp_path, _growing(kib))
    assert judgement.findings == []
    reasons = {one.kind: one.reason for one in judgement.abstentions}
    assert "the source of keep (a.py:3) is missing" in reasons["memory growth"]


OTHER_MEMORY = {
    "loaded once": [50_000.0, 400_000.0, *[430_000.0] * 18],
    "little": [50_000.0 + 2_000 * n for n in range(20)],
    "ends": [50_000.0 + 20_000 * n for n in range(15)] + [330_000.0] * 6,
    "given back": [50_000.0 + 20_000 * n for n in range(12)] + [60_000.0] * 8,
}


@pytest.mark.parametrize("series", OTHER_MEMORY)
def test_other_uses_of_memory_are_none(series, tmp_path):
    judgement = _judgement(tmp_path, _growing(OTHER_MEMORY[series]))
    assert judgement.findings == []
    assert "memory growth" not in {one.kind for one in judgement.abstentions}


def test_a_result_that_is_built_in_few_calls_is_no_growth(tmp_path):
    profile = _growing([50_000.0 + 20_000 * n for n in range(20)], calls=2)
    assert _judgement(tmp_path, replace(profile)).findings == []
