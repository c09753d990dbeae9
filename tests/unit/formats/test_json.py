"""A whole profile as JSON: nothing is lost, nothing wrong comes in."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import json_
from taupy.formats.progress import SILENT
from taupy.model import invariants
from taupy.model.profile import Timer, UserEvent
from tests.builders import (
    call,
    collectives,
    gpu_profile,
    host,
    profile_of,
    random_profile,
    samples,
    small_profile,
    steps,
    stretches,
)
from tests.unit.formats.comparing import one, read


def there_and_back(profile, folder):
    file = folder / "x.taupy.json"
    assert json_.write(profile, file, SILENT) == []
    return one(json_, file)


def as_text(profile):
    """All fields of it; NaN reads as itself."""
    return repr(profile)


@pytest.mark.parametrize("made", [small_profile, gpu_profile])
def test_every_field_comes_back(tmp_path, made):
    profile = made(name="x/y", exit_code=-9, state="incomplete")
    assert as_text(there_and_back(profile, tmp_path)) == as_text(profile)


def test_values_over_time_come_back(tmp_path):
    profile = gpu_profile()
    profile.threads[0].samples = [samples("GPU[0] sm_active", "%", [1.0, float("nan"), 3.5])]
    assert as_text(there_and_back(profile, tmp_path)) == as_text(profile)


def test_steps_come_back(tmp_path):
    profile = gpu_profile()
    profile.threads[0].steps = [steps([100, 20, 30]), steps([50], "validation")]
    assert as_text(there_and_back(profile, tmp_path)) == as_text(profile)


def test_collectives_come_back(tmp_path):
    profile = gpu_profile()
    profile.threads[0].collectives = [collectives([0, 20], [10, -1], row=1), collectives([], [])]
    assert as_text(there_and_back(profile, tmp_path)) == as_text(profile)


def test_stretches_come_back(tmp_path):
    profile = gpu_profile()
    profile.threads[0].stretches = stretches([10, 30], {1: 4, 0: 3}, {0: 12})
    assert as_text(there_and_back(profile, tmp_path)) == as_text(profile)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"row": [10_000] * 3}, "of a missing row"),
        ({"stretch": [0, 0, 2]}, "a stretch that is not there"),
        ({"own_ns": [1]}, "differ in length"),
        ({"end_ns": [10, 1 << 63]}, "64 bits|overflow"),
    ],
)
def test_stretches_that_cannot_be_are_refused(tmp_path, change, why):
    profile = gpu_profile()
    profile.threads[0].stretches = stretches([10, 30], {1: 4, 0: 3}, {0: 12})
    file = tmp_path / "x.taupy.json"
    json_.write(profile, file, SILENT)
    document = json.loads(file.read_text())
    document["threads"][0]["stretches"][0].update(change)
    file.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=why):
        one(json_, file)


def test_collectives_of_call_paths_that_are_not_there_are_refused(tmp_path):
    profile = gpu_profile()
    profile.threads[0].collectives = [collectives([0], [10], row=10_000)]
    file = tmp_path / "x.taupy.json"
    json_.write(profile, file, SILENT)
    with pytest.raises(FormatError, match="a collective of a missing row"):
        one(json_, file)


def test_columns_of_samples_that_differ_in_length_are_refused(tmp_path):
    profile = gpu_profile()
    profile.threads[0].samples = [samples("GPU[0] sm_active", "%", [1.0, 2.0])]
    file = tmp_path / "x.taupy.json"
    json_.write(profile, file, SILENT)
    file.write_text(file.read_text().replace('"count": [2, 2]', '"count": [2]'))
    with pytest.raises(FormatError, match="differ in length"):
        one(json_, file)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_any_profile_comes_back(tmp_path_factory, seed):
    profile = random_profile(Random(seed))
    assert as_text(there_and_back(profile, tmp_path_factory.mktemp("json"))) == as_text(profile)


@settings(max_examples=80, deadline=None)
@given(name=st.text(max_size=30), number=st.floats(), whole=st.integers(-(2**63) + 1, 2**63 - 1))
def test_any_name_and_number_comes_back(tmp_path_factory, name, number, whole):
    event = UserEvent(name, name, 1, number, number, number, number)
    profile = profile_of(
        host(call(Timer(name, name, 3, (name,), name, name), 1, whole), events=[event]),
        metadata={name: name},
        node_metadata={3: {name: name}},
    )
    profile.threads[0].tree.exclusive["real"] = type(profile.threads[0].tree.calls)("d", [number])
    assert as_text(there_and_back(profile, tmp_path_factory.mktemp("json"))) == as_text(profile)


def test_keys_in_another_order_are_the_same_profile(tmp_path):
    profile = small_profile()
    file = tmp_path / "x.json"
    json_.write(profile, file, SILENT)
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document, sort_keys=True, indent=2))
    back = one(json_, file)
    assert as_text(back.threads) == as_text(profile.threads)
    assert back.timers == profile.timers


def document(tmp_path):
    file = tmp_path / "x.json"
    json_.write(gpu_profile(), file, SILENT)
    return file, json.loads(file.read_text())


def changed(path, value):
    """A change of the document: the place, with numbers for places in lists."""

    def change(content):
        *above, last = path
        for key in above:
            content = content[key]
        if value is ...:
            del content[last]
        else:
            content[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["taupy_profile"], 2),
        (["uuid"], ...),
        (["uuid"], 5),
        (["timers"], ...),
        (["timers"], {}),
        (["timers", 0], "x"),
        (["timers", 0, "name"], None),
        (["timers", 0, "name"], ...),
        (["timers", 1, "line"], "three"),
        (["timers", 0, "groups"], "PYTHON"),
        (["timers", 0, "groups", 0], 5),
        (["metrics", 0], []),
        (["metrics", 0, "unit"], ...),
        (["duration_ns"], 1.5),
        (["duration_ns"], 2**63),
        (["started_at"], "now"),
        (["metadata"], []),
        (["metadata", "x"], 5),
        (["node_metadata", "zero"], {}),
        (["node_metadata", "9" * 30], {}),
        (["devices", 0, "facts", 0], ["x"]),
        (["devices", 0, "ordinal"], "0"),
        (["timers", 1, "line"], "9" * 30),
        (["timers", 1, "line"], 2**70),
        (["exit_code"], True),
        (["state"], "odd"),
        (["threads", 0], 5),
        (["threads", 0, "kind"], "odd"),
        (["threads", 0, "node"], None),
        (["threads", 0, "tree", "calls", 0], None),
        (["threads", 0, "tree", "calls", 0], 1.5),
        (["threads", 0, "tree", "inclusive", "time", 0], "x"),
        (["threads", 0, "tree", "inclusive", "time", 0], []),
        (["threads", 1, "launches", 0, "grid"], [1, 2]),
        (["threads", 1, "launches", 0, "count"], None),
        (["threads", 1, "launches", 0, "occupancy"], "much"),
        (["threads", 1, "activities", 0], [1]),
        (["threads", 1, "activities", 0, 0], 99),
        (["threads", 1, "activities", 0, 2], None),
        (["threads", 2, "user_events", 0, "count"], "ten"),
    ],
)
def test_what_has_the_wrong_type_is_refused(tmp_path, path, value):
    file, content = document(tmp_path)
    changed(path, value)(content)
    file.write_text(json.dumps(content))
    with pytest.raises(FormatError) as refused:
        read(json_, file)
    assert str(refused.value).startswith(f"{file}: JSON value ")


def test_a_refusal_says_what_was_expected_and_where(tmp_path):
    file, content = document(tmp_path)
    content["timers"][1]["line"] = "three"
    file.write_text(json.dumps(content))
    with pytest.raises(
        FormatError, match=r"timer: Expected `int \| null`, got `str` - at `\$.line`"
    ):
        read(json_, file)


def test_json_is_checked_by_a_library_that_is_loaded_where_json_is_read():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, taupy.formats.registry as r; r.formats();"
         "print('msgspec' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"


def test_trees_of_no_lawful_shape_can_still_be_stored(tmp_path):
    file, content = document(tmp_path)
    tree = content["threads"][0]["tree"]
    tree["parent"] = [4, 0, 1, 99, -7]
    tree["timer"] = [99, 0, 1, 2, -1]
    tree["calls"] = tree["calls"][:2]
    file.write_text(json.dumps(content))
    assert invariants.check(invariants.mended(one(json_, file)))


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, 9000), new=st.binary(max_size=3), drop=st.integers(0, 30))
def test_changed_bytes_are_refused_or_read_never_more(tmp_path_factory, place, new, drop):
    file = tmp_path_factory.mktemp("changed") / "x.json"
    json_.write(replace(gpu_profile()), file, SILENT)
    content = file.read_bytes()
    place %= len(content)
    file.write_bytes(content[:place] + new + content[place + drop :])
    try:
        invariants.mended(one(json_, file))
    except FormatError as problem:
        assert "\n" not in str(problem)


def test_recognised_by_content(tmp_path):
    file, _ = document(tmp_path)
    assert json_.recognises(file, file.read_bytes())
    assert not json_.recognises(file, b'{"profiles": []}')
