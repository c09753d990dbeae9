"""What a trial says of its layers, and of how their backward passes were divided."""

from __future__ import annotations

import pytest

from taupy.model.profile import Timer
from taupy.network import layers

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
    line = layers.undivided(timers, {"taupy.autograd": way} if way else {})
    assert line == ("backward passes are not divided by layer: no compiler" if said else None)


def test_a_trial_whose_graphs_were_not_seen_says_so():
    line = layers.undivided((LAYER, BACKWARD), {"taupy.autograd": "by layer: PyTorch 2.13"})
    assert line is not None and line.endswith("compiled, but has seen no node of a graph")


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
