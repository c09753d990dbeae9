"""What a trial says of its layers, and of how their backward passes were divided."""

from __future__ import annotations

import pytest

from taupy.model.profile import Timer
from taupy.network import layers

TORCH = Timer("import torch", groups=("IMPORT",))
LAYER = Timer("net.0 [Linear]", groups=("LAYER",))
BACKWARD = Timer("Tensor.backward", "torch/_tensor.py", 1, ("PYTHON", "PHASE_BACKWARD"))
NODE = Timer("AddmmBackward0", groups=("AUTOGRAD",))


@pytest.mark.parametrize(
    ("timers", "way", "said"),
    [
        ((LAYER, BACKWARD), "one phase: no compiler", True),
        ((LAYER, BACKWARD, NODE), "by layer: PyTorch 2.13", False),
        ((LAYER,), "one phase: no compiler", False),
        ((BACKWARD,), "one phase: no compiler", False),
        ((LAYER, BACKWARD), "", False),
    ],
)
def test_a_trial_says_why_backward_passes_are_one_phase(timers, way, said):
    line = layers.lacking([TORCH, *timers], {"taupy.autograd": way} if way else {})
    assert line == ("backward passes by layer: not recorded, since no compiler" if said else None)
    assert layers.lacking(timers, {"taupy.autograd": way} if way else {}) is None


def test_a_trial_whose_graphs_were_not_seen_says_so():
    line = layers.lacking((TORCH, LAYER, BACKWARD), {"taupy.autograd": "by layer: PyTorch 2.13"})
    assert line is not None and line.endswith("has seen no node of a graph")


def test_what_lacks_for_one_cause_is_one_remark_and_for_what_was_used_only():
    cause = layers.not_built("2.13")
    facts = {
        layers.AUTOGRAD: layers.ONE_PHASE + cause,
        layers.OPERATORS: layers.NOT_KNOWN + cause,
        layers.COLLECTIVES: layers.NOT_RECORDED + cause,
    }
    assert layers.lacking([TORCH], facts) is None
    assert (
        layers.lacking([TORCH, Timer("Pipeline.fit", groups=("LAYER", "ESTIMATOR"))], facts) is None
    )
    assert layers.lacking([TORCH, LAYER], facts) == (
        f"shapes, parameters and flop of layers: not recorded, since {cause}"
    )
    assert "`taupy setup torch`" in cause
    place = "/lib/torch/distributed/distributed_c10d.py"
    groups = Timer("init_process_group", place, 1, ("PYTHON",))
    assert layers.lacking([TORCH, LAYER, BACKWARD, groups], facts) == (
        "backward passes by layer, shapes, parameters and flop of layers, collectives: "
        f"not recorded, since {cause}"
    )


def test_names_of_a_layer_and_of_its_backward_pass():
    assert layers.layer_of("backward of net.0") == layers.layer_of("net.0") == "net.0"
    assert layers.layer_type("backward of net.0 [Linear]") == "Linear"
    assert layers.is_call("LAYER")
    assert not layers.is_call("LAYER|PHASE_BACKWARD")
    assert layers.is_backward("PHASE_BACKWARD|LAYER")
    assert not layers.is_backward("PYTHON|PHASE_BACKWARD")


def test_a_class_that_has_only_backward_passes_left_is_not_named_twice():
    others = Timer("Net (others) [Net]", groups=("LAYER",))
    again = Timer("backward of Net (others) [Net]", groups=("LAYER", "PHASE_BACKWARD"))
    assert "(Net)" in (layers.doubt([others, again]) or "")
