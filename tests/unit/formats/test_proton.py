"""Triton's Proton: scopes, functions and kernels with values of devices."""

from __future__ import annotations

import json

import pytest

from taupy.errors import FormatError
from taupy.formats import proton, registry
from taupy.model import invariants
from tests.unit.formats.comparing import one, paths


def node(name, *children, **metrics):
    values = {key.replace("_ns", " (ns)"): value for key, value in metrics.items()}
    frame = {"name": name, "type": "function"}
    return {"children": list(children), "frame": frame, "metrics": values}


def on_gpu(name, time_ns, count=1, device="0", **more):
    return node(name, count=count, device_id=device, device_type="CUDA", time_ns=time_ns, **more)


def written(folder, *roots):
    path = folder / "proton.hatchet"
    devices = {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}
    path.write_text(json.dumps([*roots, devices]))
    return path


def test_each_device_is_a_stream_under_the_scopes_that_launched(tmp_path):
    step = node("step", on_gpu("_Z4gemmIfEvPT_i", 700, 2, flops=5), on_gpu("k", 50, device="1"))
    root = node("ROOT", node("/app/train.py:run@7", step), on_gpu("k", 300), count=0, time_ns=0)
    path = written(tmp_path, root)
    assert registry.recognised(path).name == "proton"
    profile = one(proton, path)
    assert invariants.check(profile) == []
    first, second = profile.threads
    assert [(thread.thread.context, thread.thread.kind) for thread in (first, second)] == [
        (1, "stream"), (2, "stream")
    ]  # fmt: skip
    assert first.tree.inclusive["time"][0] == 1000 and sum(first.tree.calls) == 3
    assert second.tree.inclusive["time"][0] == 50
    assert first.tree.inclusive["flops"][0] == 5
    found = {tuple(name for name, _ in path) for path in paths(profile, first)}
    assert ("ROOT", "run [{/app/train.py}{7}]", "step", "void gemm<float>(float*, int)") in found


@pytest.mark.parametrize(
    ("roots", "said"),
    [
        ([node("ROOT")], "no node has a value"),
        ([{"children": [{"frame": 1}], "frame": {"name": "x"}, "metrics": {}}], "not a node"),
        ([{"children": 3, "frame": {"name": "x"}, "metrics": {}}], "children that are not a list"),
    ],
)
def test_what_is_no_tree_of_values_is_refused(tmp_path, roots, said):
    with pytest.raises(FormatError, match=said):
        one(proton, written(tmp_path, *roots))
