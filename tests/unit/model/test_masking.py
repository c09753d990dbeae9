"""Secrets in command lines are masked; what trainings are compared by is not."""

from __future__ import annotations

import random
import re
import shlex
import string
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.model.masking import Masking

DATA = Path(__file__).parents[2] / "data"
LETTERS = {
    "hex": "0123456789abcdef",
    "an": string.ascii_letters + string.digits,
    "up": string.ascii_uppercase + string.digits,
    "num": string.digits,
}


def corpus(name):
    """The lines of a file, in which {hex40} is as many random characters."""
    lines = (DATA / name).read_text().splitlines()
    return [filled(line) for line in lines if not line.startswith("#")]


def filled(line):
    chosen = random.Random(line)

    def letters(match):
        return "".join(chosen.choices(LETTERS[match[1]], k=int(match[2])))

    return re.sub(r"\{(hex|an|up|num)(\d+)\}", letters, line)


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
train.py --hf-token=Zq81x --key right_hand | Zq81x
train.py --key sk81_xQ | sk81_xQ
train.py --wandb-key 0a1b2c3d4e | 0a1b2c3d4e
train.py 'logger={wandb: {api_key: hunter2, project: x}}' | hunter2
train.py --config "{password: hunter2, user: me}" | hunter2
train.py --config '{"lr": 0.1, "token": "hunter2"}' | hunter2
train.py --header "Authorization: Bearer hunter2" | hunter2
train.py --header "authorization: Basic bWU6YWJj" | bWU6YWJj
curl -H "PRIVATE-TOKEN: hunter2" http://h | hunter2
curl -ume:hunter2 http://h | hunter2
env A=1 curl --user=me:hunter2 http://h | hunter2
curl -d "password=hunter2&x=1" http://h | hunter2&x=1
train.py --repo https://abcd1234:x-oauth-basic@github.com/a/b | x-oauth-basic
train.py --repo https://0123456789abcdef0123@github.com/a/b | 0123456789abcdef0123
train.py --proxy http://u:p%40ss@proxy:8080 | p%40ss
train.py --url "https://a.net/c/f?sv=2022&sig=hunter2%3D&se=1" | hunter2%3D
env PGPASSWORD=hunter2 psql | hunter2
env MYSQL_PWD=hunter2 mysql | hunter2
env DB_PASS=hunter2 python train.py --first-pass adam | hunter2
sh -c "python train.py wandb.api_key=hunter2" | hunter2
sh -c "export DB_PASSWORD='two words'; python x.py" | two words
sh -c "curl -u me:hunter2 http://h" | hunter2
env bash -c 'torchrun x.py --hf-token="hunter2" --lr 1' | hunter2
docker run -eHF_TOKEN=hunter2 img | hunter2
sshpass -phunter2 ssh h | hunter2
sshpass -p hunter2 ssh h | hunter2
mysql -u root -phunter2 db | hunter2
redis-cli -a hunter2 ping | hunter2
srun --export=ALL,HF_TOKEN=hunter2,LR=1 python x.py | hunter2
lm_eval --model_args pretrained=x,token=hunter2 | hunter2
train.py --conn "host=h user=u password=hunter2 dbname=d" | hunter2
train.py --conn "Server=h;User Id=u;Password=hunter2;" | hunter2
python -c "import wandb; wandb.login(key='0a1b2c3d4e')" | 0a1b2c3d4e
python -c "import openai; openai.api_key = 'hunter2'" | hunter2
train.py --aws-secret-key /K7MDENGbPxRfiCYzEXAMPLEKEYwJ | /K7MDENGbPxRfiCYzEXAMPLEKEYwJ
""".strip().splitlines()


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return str(folder)


def test_every_form_of_a_secret_is_masked_and_nothing_beside_it(state):
    masking, lines = Masking(state), corpus("secrets.txt")
    assert len(lines) >= 300
    wrong = []
    for line in lines:
        secret = line[line.index("⟦") + 1 : line.index("⟧")]
        words = shlex.split(line)
        masked = masking.words([re.sub("[⟦⟧]", "", word) for word in words])
        masked = [re.sub("MASKED-[0-9a-f]{8}", "#", word) for word in masked]
        if masked != [re.sub("⟦.*⟧", "#", word) for word in words]:
            wrong.append((words, masked))
        shown = masking.line(re.sub("[⟦⟧]", "", line))
        if secret in re.sub("MASKED-[0-9a-f]{8}", "", shown):
            wrong.append((line, shown))
    assert wrong == []


@pytest.mark.parametrize("name", ["trainings.txt", "harmless.txt"])
def test_nothing_harmless_is_hit(state, name):
    lines = corpus(name)
    assert len(lines) >= 300
    masking = Masking(state)
    hits = []
    for line in lines:
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


@pytest.mark.parametrize("case", SECRETS)
def test_a_secret_is_masked_in_a_line_for_a_shell(state, case):
    line, _, secret = case.rpartition(" | ")
    masked = Masking(state).line(line)
    unmasked = re.sub("MASKED-[0-9a-f]{8}", "", masked)  # a digest may have "abc" in it
    assert unmasked != masked
    assert secret not in unmasked or secret in ("X", "T", "s")


@pytest.mark.parametrize(
    "text", ["key a'b c'd \"e\"f", "key '", 'key "\\"', "key '\"'\"' x", "$(key)"]
)
def test_odd_quotes_change_nothing(state, text):
    assert Masking(state).line(text) == text
    assert Masking(state).words([text]) == [text]


@pytest.mark.parametrize("unit", ["1", '"\\', "eyJabcdefgh-", "a:b", "'"])
def test_a_long_text_takes_no_time_that_grows_with_its_square(state, unit):
    began = time.process_time()
    Masking(state).line("password=" + unit * (16_000 // len(unit)) + "!")
    assert time.process_time() - began < 3


def test_metadata_are_masked_by_their_names_and_within(state):
    facts = {
        "api_key": "hunter2",
        "Command Line": "x --password hunter2 --max-tokens 4096",
        "data key": "image",
        "seed": "17",
        "store": "postgres://me:hunter2@host/x",
    }
    masked = Masking(state).facts(facts)
    assert "hunter2" not in str(masked)
    assert {name for name in facts if masked[name] == facts[name]} == {"data key", "seed"}
    assert Masking(state, ["seed of"]).facts({"Seed_of": "x1"})["Seed_of"] == "x1"
    assert Masking(state, ["seed-of"]).facts({"Seed_of": "x1"})["Seed_of"] != "x1"
    assert Masking(state, keeps=True).facts(facts) == facts


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


def test_the_statement_pass_hides_no_secret_beside_it(state):
    text = 'def job(): pass\npassword = "hunter2-Xy9"  # y: pass\n'
    masked, lines = Masking(state).source(text)
    assert (lines, "hunter2" in masked, masked.startswith("def job(): pass\n")) == (1, False, True)


@pytest.mark.parametrize("number", ["4096", "1e-3", "-2", "0.5", "1,2,3", "[1,2]", "16x16", "0xff"])
def test_numbers_are_masked_after_password_only(state, number):
    words = ["x", "--key", number, "--token", number, f"pass={number}", f"num_secrets={number}"]
    assert Masking(state).words(words) == words
    assert Masking(state).words([f"password={number}"])[0].startswith("password=MASKED-")


def test_a_user_can_name_more_and_can_keep_all(state):
    words = ["x", "--license-of", "abc", "--pin=q1", "--token", "T"]
    masked = Masking(state, ["license-of", "--PIN"]).words(words)
    assert [word.count("MASKED-") for word in masked] == [0, 0, 1, 1, 0, 1]
    assert Masking(state, ["pin"], keeps=True).words(words) == words


def statements(name):
    """The statements of a file, each of one or more lines."""
    return filled("\n".join(corpus(name))).split("\n---\n")


@pytest.mark.parametrize("text", statements("source_secrets.txt"))
def test_a_secret_in_a_program_is_masked_over_its_lines_and_nothing_else(state, text):
    marked, hidden = [], False
    for letter in text:
        if letter in "⟦⟧":
            hidden = letter == "⟦"
        else:
            marked.append((letter, hidden))
    plain = "".join(letter for letter, _ in marked)
    masked, lines = Masking(state).source(plain)
    assert len(masked) == len(plain), masked
    shown = "".join("#" if hidden and letter != "\n" else letter for letter, hidden in marked)
    outside = zip(masked, marked, strict=True)
    assert shown == "".join("#" if hide and new != "\n" else new for new, (_, hide) in outside)
    for secret in re.findall("⟦([^⟧]+)⟧", text):
        assert all(part not in masked for part in secret.split("\n")), masked
    changed = zip(plain.split("\n"), masked.split("\n"), strict=True)
    assert lines == sum(before != after for before, after in changed) > 0
    assert Masking(state).source(masked)[0] == masked
    assert Masking(state).source(f"x = 1\n{plain}\ny = 2\n")[0] == f"x = 1\n{masked}\ny = 2\n"


@pytest.mark.parametrize("text", statements("source_harmless.txt"))
def test_harmless_code_stays(state, text):
    assert Masking(state).source(text) == (text, 0)


@pytest.mark.slow
def test_the_code_of_taupy_has_no_secrets(state):
    masking = Masking(state)
    of_secrets = {"secret_names", "secret_words", "source_statements", "token_forms"}
    for file in sorted((DATA.parents[1] / "taupy").rglob("*.py")):
        if file.stem in of_secrets:
            continue
        text = file.read_text("utf-8")
        assert masking.source(text)[0] == text, file


@given(st.text("'\"\\\n#()[]{}=:,+ f\tpassword1", max_size=60))
def test_whatever_a_text_is_its_lines_and_columns_stay(text):
    text = f"password = {text}"
    masked, _ = Masking("/nowhere").source(text)
    assert list(map(len, masked.split("\n"))) == list(map(len, text.split("\n")))
    assert len(masked) == len(text)


@pytest.mark.parametrize(
    "unit", ['"key": "a1!",', "(", '"', "'a' ", "a, ", "key=[1,", '"""\n', "\\\n"]
)
def test_a_long_statement_takes_no_time_that_grows_with_its_square(state, unit):
    began = time.process_time()
    Masking(state).source("password = (" + unit * (16_000 // len(unit)))
    assert time.process_time() - began < 3
