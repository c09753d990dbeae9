"""What a finding says is true of its own numbers: what "most of it" names has most of it."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from taupy.analysis import findings
from taupy.analysis.findings.calls import largest_part
from taupy.model.profile import Timer
from taupy.profiledb.writer import add_profile
from taupy.report.report import report
from tests.builders import call, database_at, host, profile_of
from tests.findings import gpu_faults, gpu_healthy

UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
DURATION = r"([\d,.]+) (ns|us|ms|s)\b"
PART = re.compile(r", (most|[\d.]+ %) of (?:it|this wait|this|the difference) in ([^;:,(]*)")
MS = 1_000_000

NEXT = Timer("_BaseDataLoaderIter.__next__", "torch/utils/data/dataloader.py", 700,
             ("PHASE_DATA",))  # fmt: skip
FETCH = Timer("_MapDatasetFetcher.fetch", "torch/utils/data/_utils/fetch.py", 46)
LENGTH = Timer("Photos.__len__", "train.py", 18, path="/u/train.py")
NOISE = Timer("Photos.salt_and_pepper", "train.py", 21, path="/u/train.py")
FLIP = Timer("Photos.flip", "train.py", 29, path="/u/train.py")


def durations(text):
    return [float(number.replace(",", "")) * UNITS[unit]
            for number, unit in re.findall(DURATION, text)]  # fmt: skip


def claims(sentence):
    """Each part that a sentence names: its least share, its name, and the times around it, as
    (whole, part); None where no time follows."""
    for found in PART.finditer(sentence):
        share = 0.5 if found[1] == "most" else float(found[1].split()[0]) / 100 - 0.001
        before = durations(sentence[: found.start()])
        after = durations(re.split("[;,]", sentence[found.end() :])[0])
        yield share, found[2].strip(), (before[-1], after[0] if after else None)


def assert_true(sentences, own_ns):
    """
    Args:
        own_ns: short name of a routine -> the most that it can have.
    """
    for sentence in sentences:
        for share, name, (whole, part) in claims(sentence):
            if part is not None:
                assert part >= 0.99 * share * whole, sentence
                assert part <= 1.01 * own_ns[name], sentence
            elif name in own_ns and "launches" not in sentence:  # whose number it is, not time
                assert own_ns[name] >= 0.99 * share * whole, sentence


def sentences_of(folder, profile):
    with database_at(folder / "t.db") as db:
        add_profile(db, profile)
        judgement = report(db, db.latest()).judgement
        times = db.rows(
            """SELECT timer.short_name, sum(inclusive) FROM timer_value
                 JOIN timer ON timer.id = timer_id GROUP BY timer.short_name"""
        )
    return [finding.sentence for finding in judgement.findings], dict(times)


@pytest.mark.parametrize(
    "training", [*gpu_faults.FAULTS, *gpu_healthy.HEALTHY], ids=lambda made: made.__name__
)
def test_what_is_named_of_a_training_has_that_much(training, tmp_path):
    assert_true(*sentences_of(tmp_path, training()))


def test_only_one_function_says_most_of_it():
    """Rules that wrote it themselves named what had 5 us of 3 s."""
    (folder,) = findings.__path__
    writes = [path.name for path in Path(folder).glob("*.py") if ", most of " in path.read_text()]
    # A loss of the GPU names a place only if that has most of it: `gpu_conclusion.lost`.
    assert sorted(writes) == ["calls.py", "idle_gpu.py"]


def test_a_part_is_named_by_its_share():
    assert largest_part("f", 51, 100) == ", most of it in f"
    assert largest_part("f", 50, 100) == ", 50.0 % of it in f"
    assert largest_part("f", 10, 100, "this wait") == ", 10.0 % of this wait in f"
    assert largest_part("f", 9, 100) == ""
    assert largest_part("f", 0, 0) == largest_part("f", 3, -5) == ""


# --- loaders -------------------------------------------------------------------


def loader(length_ns, wait_ns, workers):
    """A training that waits for its data, of which it makes some itself, and workers, each with
    the times of two routines."""
    data = call(NEXT, 10, wait_ns, [call(LENGTH, 10, length_ns)])
    train = call(Timer("train", "train.py", 50, path="/u/train.py"), 1, 500 * MS, [data])
    threads = [
        host(call(FETCH, 10, 1 * MS, [call(NOISE, 500, noise), call(FLIP, 500, flip)]), number)
        for number, (noise, flip) in enumerate(workers, 1)
    ]
    return profile_of(host(call("main", 1, 0, [train])), *threads,
                      duration_ns=500 * MS + wait_ns + length_ns)  # fmt: skip


def test_workers_are_named_where_the_training_waits_for_them(tmp_path):
    made = loader(5_000, 3_060 * MS, [(7_000 * MS, 100 * MS), (7_300 * MS, 100 * MS)])
    (sentence, *_), _ = sentences_of(tmp_path, made)
    assert "__len__" not in sentence
    assert "made by 2 workers" in sentence
    assert "most of it in Photos.salt_and_pepper (train.py:21): 14.3 s in 1,000 calls" in sentence


def test_what_the_training_makes_itself_is_named(tmp_path):
    (sentence, *_), _ = sentences_of(tmp_path, loader(900 * MS, 100 * MS, []))
    assert "most of it in Photos.__len__ (train.py:18): 900 ms in 10 calls" in sentence


@pytest.mark.parametrize("seed", range(12))
def test_what_is_named_of_any_loader_has_that_much(seed, tmp_path):
    random = Random(seed)
    sizes = [random.choice([0, 5_000, 10 * MS, 300 * MS, 3_000 * MS]) for _ in range(6)]
    workers = [(sizes[2], sizes[3]), (sizes[4], sizes[5])][: random.randrange(3)]
    sentences, own_ns = sentences_of(tmp_path, loader(sizes[0], sizes[1] + 300 * MS, workers))
    assert any("waits" in sentence for sentence in sentences)
    assert_true(sentences, own_ns)
