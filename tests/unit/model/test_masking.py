"""Secrets in command lines are masked; what trainings are compared by is not."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from taupy.model.masking import Masking

TRAININGS = (Path(__file__).parents[2] / "data" / "trainings.txt").read_text().splitlines()
"""Command lines of trainings, of the kinds that people write."""

SECRETS = """
train.py --password X | X
train.py --api-key=X | X
train.py --data postgres://user:X@host:5432/db | X
train.py --db user:X@host | X
train.py --hub_token hf_abc | hf_abc
train.py --token T | T
train.py --key K3 | K3
train.py --secret s | s
train.py --my-token hunter2 | hunter2
train.py --my_secret_value abc | abc
train.py --passphrase "two words" | two words
train.py --password="two words" | two words
train.py wandb.api_key=abc trainer.devices=2 | abc
train.py +logger.comet.apiKey=abc | abc
train.py ++auth.password=p@ss:w0rd | p@ss:w0rd
env HF_TOKEN=abc python train.py | abc
env AWS_SECRET_ACCESS_KEY=abc/def+ghi= python train.py | abc/def+ghi=
env APIKEY=abc python train.py | abc
python train.py --AWS_SESSION_TOKEN=abc | abc
python -c "x" --clientSecret abc | abc
sh -c "FOO_SECRET=abc python train.py --lr 1" | abc
sh -c "curl --token xyz http://x" | xyz
bash -c "mysql --password='abc' db" | abc
curl -u me:abc http://host/x | abc
curl -H "Authorization: Bearer abc" http://host | abc
curl -H "X-Api-Key: abc" http://host | abc
wget "http://host/x?api_key=abc&n=3" | abc
python train.py --data "https://host/x.tar?X-Amz-Signature=abc123&n=3" | abc123
python train.py --data https://oauth2:abc@host/x.git | abc
python train.py --redis redis://:abc@host:6379/0 | abc
python train.py --config '{"api_key": "abc", "lr": 0.1}' | abc
python train.py --name ghp_0123456789abcdefghij0123 | ghp_0123456789abcdefghij0123
python train.py sk-proj-0123456789abcdefghij | sk-proj-0123456789abcdefghij
python -c "login('hf_0123456789abcdefghij')" | hf_0123456789abcdefghij
""".strip().splitlines()


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return str(folder)


def test_no_training_is_hit(state):
    assert len(TRAININGS) >= 200
    masking = Masking(state)
    hits = []
    for line in TRAININGS:
        words = shlex.split(line)
        hits += [(words, masked) for masked in [masking.words(words)] if masked != words]
        hits += [(line, masked) for masked in [masking.line(line)] if masked != line]
    assert hits == []


@pytest.mark.parametrize("case", SECRETS)
def test_a_secret_is_masked_and_nothing_else(state, case):
    line, _, secret = case.rpartition(" | ")
    words = shlex.split(line)
    (changed,) = [
        (before, after)
        for before, after in zip(words, Masking(state).words(words), strict=True)
        if before != after
    ]
    assert secret in changed[0]
    before, mark, after = changed[1].partition("MASKED-")
    assert mark and changed[0] == before + secret + after[8:]


def test_equal_values_stay_equal_under_one_salt_and_differ_under_another(state, tmp_path):
    words = ["x", "--token", "T1", "--api-key=T1", "--password", "T2"]
    _, _, first, second, _, third = Masking(state).words(words)
    assert second == f"--api-key={first}" and first != third
    assert Masking(state).words(words)[2] == first
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    assert Masking(str(other)).words(words)[2] != first


def test_masking_again_changes_nothing(state):
    masking = Masking(state)
    once = masking.words(["x", "--token", "T", "http://a:b1c@d/"])
    assert masking.words(once) == once


@pytest.mark.parametrize("number", ["4096", "1e-3", "-2", "0.5", "1,2,3", "[1,2]", "16x16", "0xff"])
def test_numbers_are_never_masked(state, number):
    words = ["x", "--password", number, "--token", number, f"secret={number}"]
    assert Masking(state).words(words) == words


def test_a_user_can_name_more_and_can_keep_all(state):
    words = ["x", "--license-of", "abc", "--pin=q1", "--token", "T"]
    masked = Masking(state, ["license-of", "--PIN"]).words(words)
    assert [word.count("MASKED-") for word in masked] == [0, 0, 1, 1, 0, 1]
    assert Masking(state, ["pin"], keeps=True).words(words) == words
