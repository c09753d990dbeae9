"""Layers of two trials: by name, without wrappers, then by class and position."""

from __future__ import annotations

import pytest

from taupy.analysis.layer_match import matched_layers, unwrapped

PLAIN = {"Net": "Net", "conv": "Conv2d", "head.0": "Linear", "head.1": "Linear"}


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("conv", "conv"),
        ("_orig_mod.conv", "conv"),
        ("module._orig_mod.conv", "conv"),
        ("module", "Net"),
        ("head.module.0", "head.module.0"),
        ("modules.0", "modules.0"),
    ],
)
def test_prefixes_of_wrappers_are_no_part_of_a_name(name, plain):
    assert unwrapped(name, "Net") == plain


@pytest.mark.parametrize("wrapper", ["module", "_orig_mod", "module._orig_mod"])
def test_a_wrapped_model_is_the_model_itself(wrapper):
    inner = {
        wrapper if name == "Net" else f"{wrapper}.{name}": kind for name, kind in PLAIN.items()
    }
    both = matched_layers([PLAIN, {"Wrapper": "Wrapper", **inner}])
    assert [both[1][name].identity for name in inner] == [both[0][n].identity for n in PLAIN]
    assert {key.rule for key in both[0].values()} == {"prefix"}
    assert both[1]["Wrapper"].identity not in {key.identity for key in both[0].values()}


def test_names_that_all_have_match_as_they_are():
    both = matched_layers([PLAIN, PLAIN])
    assert both[0] == both[1] and {key.rule for key in both[0].values()} == {"same"}
    assert matched_layers([{"module.a": "A"}, {"module.a": "A"}])[0]["module.a"].rule == "same"


def test_what_was_renamed_matches_by_class_and_position():
    renamed = {"Net": "Net", "conv": "Conv2d", "top.a": "Linear", "top.b": "Linear"}
    both = matched_layers([PLAIN, renamed])
    assert both[1]["top.a"].identity == both[0]["head.0"].identity
    assert both[1]["top.b"].identity == both[0]["head.1"].identity
    assert both[1]["top.b"].timer == "head.1" and both[1]["top.b"].rule == "position"
    assert both[1]["conv"].rule == "same"


def test_where_the_number_of_a_class_differs_nothing_is_guessed():
    both = matched_layers([PLAIN, {"Net": "Net", "top": "Linear"}])
    assert both[1]["top"].identity not in {key.identity for key in both[0].values()}


def test_three_sides_match_where_two_of_them_agree():
    first, second, third = matched_layers([PLAIN, PLAIN, {"Net": "Net", "last": "Linear"}])
    assert first["conv"].identity == second["conv"].identity
    assert "conv" not in third and third["last"].rule == "same"
