"""How trials are named."""

from __future__ import annotations

import pytest

from taupy.errors import NoSuchTrial, UsageError
from taupy.profiledb import selector
from taupy.profiledb.writer import add_profile
from tests.builders import call, gpu_profile, host, profile_of


@pytest.fixture
def trials(db):
    """1 mnist/lr/1, 2 mnist/lr/2, 3 mnist/batch/big, 4 a/b/resnet/x/1, 5 7/7/7."""
    made = [
        ("mnist", "lr", None, "NVIDIA A100-SXM4", "64", "aaaaaaaa-1111"),
        ("mnist", "lr", None, "NVIDIA H200", "128", "aaaaaaaa-2222"),
        ("mnist", "batch", "big", "NVIDIA H200", "a=b", "bbbbbbbb-3333"),
        ("a/b/resnet", "x", None, None, None, "cccccccc-4444"),
        ("7", "7", "7", None, None, "dddddddd-5555"),
    ]
    for application, experiment, name, gpu, size, uuid in made:
        metadata = {"GPU Name": gpu, "batch size": size, "k=v": "x"} if gpu else {}
        profile = profile_of(
            host(call("main")),
            application=application,
            experiment=experiment,
            name=name,
            metadata=metadata,
            uuid=uuid,
        )
        add_profile(db, profile)
    db.tag(1, "baseline")
    db.tag(3, "best of 2026")
    return db


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", [5]),
        ("latest~0", [5]),
        ("latest~2", [3]),
        ("3", [3]),
        ("mnist/lr/2", [2]),
        ("mnist/lr", [1, 2]),
        ("mnist/*/1", [1]),
        ("mnist/*", [1, 2, 3]),
        ("*/*/1", [1, 4]),
        ("mni?t/batch/b*", [3]),
        ("mnist", [1, 2, 3]),
        ("big", [3]),
        ("a/b/resnet/x/1", [4]),
        ("a/b/resnet/x", [4]),
        ("tag:baseline", [1]),
        ("tag:best*", [3]),
        ("gpu=H200", [2, 3]),
        ("gpu=nvidia", [1, 2, 3]),
        ("app=mnist", [1, 2, 3]),
        ("experiment=l?", [1, 2]),
        ("trial=big", [3]),
        ("state=complete", [1, 2, 3, 4, 5]),
        ("mnist,gpu=H200", [2, 3]),
        ("gpu=H200,experiment=lr", [2]),
        ("gpu=H200, meta.batch_size=128, mnist/lr", [2]),
        ("latest,mnist", [3]),
        ("mnist,latest~1", [2]),
        ("tag:best*,gpu=H200", [3]),
        ("meta.batch_size=64", [1]),
        ("meta.Batch-Size=128", [2]),
        ("meta.batch size=64", [1]),
        ("meta.batch size=*", [1, 2, 3]),
        ("meta.batch size=a=b", [3]),
        ("meta.k=v=x", [1, 2, 3]),
        ("aaaaaaaa", [1, 2]),
        ("AAAAAAAA-2", [2]),
        ("dddddddd-5555", [5]),
    ],
)
def test_a_text_names_trials(trials, text, expected):
    assert [trial.id for trial in selector.many(trials, [text])] == expected
    assert selector.trial(trials, text).id == expected[-1]


@pytest.mark.parametrize("texts", [[""], ["1", ""], [","]])
def test_an_empty_text_is_no_wish_for_the_last_trial(trials, texts):
    with pytest.raises(UsageError, match="an empty text names no trial; `latest`"):
        selector.many(trials, texts)


def test_several_texts_name_each_trial_once(trials):
    found = selector.many(trials, ["gpu=H200", "mnist/lr", "3"])
    assert [trial.id for trial in found] == [1, 2, 3]


LISTED = "1 mnist/lr/1, 2 mnist/lr/2, 3 mnist/batch/big, 4 a/b/resnet/x/1, 5 7/7/7"


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("99", LISTED),
        ("9" * 50, LISTED),
        ("nothing", LISTED),
        ("mnist/lr/3", LISTED),
        ("latest~5", LISTED),
        ("app=minst", LISTED),
        ("tag:none", "tags baseline, best of 2026"),
        ("gpu=H100", "GPUs NVIDIA A100-SXM4, NVIDIA H200"),
        ("meta.batch size=65", "batch size is 64, 128, a=b"),
        ("meta.batch_size=65", "batch_size is 64, 128, a=b"),
        ("meta.bach size=64", "their metadata: batch size"),
        ("aaaaaaab", LISTED),
    ],
)
def test_a_miss_lists_what_there_is(trials, text, there):
    with pytest.raises(NoSuchTrial) as caught:
        selector.trial(trials, text)
    assert str(caught.value) == (
        f"no trial matches '{text}' in {trials.path} (5 trials: {there}); `taupy trials` lists them"
    )


def test_conditions_that_no_trial_meets_together_are_distinguished(trials):
    with pytest.raises(NoSuchTrial, match=r"\('gpu=H200' 2 trials, 'tag:baseline' 1 trial\)"):
        selector.many(trials, ["gpu=H200,tag:baseline"])
    with pytest.raises(NoSuchTrial, match="no trial matches 'gpu=B200'"):
        selector.many(trials, ["mnist,gpu=B200"])


def test_a_name_with_a_comma_is_itself_before_it_is_two_conditions(trials):
    add_profile(trials, profile_of(host(call("main")), application="mnist,gpu=H200", number=9))
    assert [trial.id for trial in selector.many(trials, ["mnist,gpu=H200"])] == [6]


def test_a_gpu_is_known_by_its_device_too(db):
    add_profile(db, gpu_profile(metadata={}))
    assert selector.trial(db, "gpu=h200").id == 1


def test_a_miss_among_many_lists_the_last(db):
    for number in range(1, 9):
        add_profile(db, profile_of(host(call("main")), number=number))
    with pytest.raises(
        NoSuchTrial, match=r"\(8 trials: \.\.\., 4 app/default/4, .* 8 app/default/8\)"
    ):
        selector.trial(db, "x")


@pytest.mark.parametrize("text", ["latest", "1", "x"])
def test_an_empty_database_says_how_to_fill_it(db, text):
    with pytest.raises(NoSuchTrial, match="has no trials; `taupy run SCRIPT` adds one"):
        selector.trial(db, text)


def test_a_name_with_brackets_is_itself_before_it_is_a_pattern(db):
    add_profile(db, profile_of(host(call("main")), application="app[1]"))
    assert selector.trial(db, "app[1]").id == 1


def test_a_name_stands_for_its_repeated_runs_where_no_trial_is_called_so(db):
    for number, name in enumerate(["a#1", "a#2", "ab#1", "a#x"], 1):
        add_profile(db, profile_of(host(call("main")), number=number, name=name))
    for text in ("a", "trial=a", "app/default/a", "app,a"):
        assert [trial.id for trial in selector.many(db, [text])] == [1, 2]
    assert selector.trial(db, "latest,a").id == 2
    add_profile(db, profile_of(host(call("main")), number=5, name="a"))
    assert [trial.id for trial in selector.many(db, ["a"])] == [5]
