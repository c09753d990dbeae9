"""Which operators of different trials are the same."""

from __future__ import annotations

from taupy.analysis.operator_match import matched_operators

CONV, ADD = "aten::conv2d", "aten::add_"


def rules(*sides, **how):
    """Each side's operators -> the name of their row, and the rule."""
    return [
        {pair: (key.short_name, key.rule) for pair, key in keys.items()}
        for keys in matched_operators(sides, **how)
    ]


def test_what_is_alone_is_matched_by_the_operator_around_it():
    cuda = [("aten::cudnn_convolution", CONV), (ADD, CONV), ("aten::mm", "aten::matmul")]
    hip = [("aten::miopen_convolution", CONV), (ADD, ADD), ("aten::fill_", "aten::zeros")]
    one, two = matched_operators([cuda, hip])
    assert one[cuda[0]] == two[hip[0]]
    assert one[cuda[0]].rule == "outer"
    assert one[cuda[0]].timer == f"{CONV}: aten::cudnn_convolution = aten::miopen_convolution"
    assert one[cuda[1]].identity == two[hip[1]].identity, "one name is one operator"
    alone = [one[cuda[2]], two[hip[2]]]
    assert [(key.timer, key.rule) for key in alone] == [
        ("aten::mm", "same"),
        ("aten::fill_", "same"),
    ]
    exact = rules(cuda, hip, exact=True)
    assert exact[0][cuda[0]] == ("aten::cudnn_convolution", "same")


def test_what_both_sides_have_is_no_partner_of_what_one_has():
    both = ("aten::add_", CONV)
    one, two = rules([both, ("aten::cudnn_convolution", CONV)], [both])
    assert one == {both: (ADD, "same"), ("aten::cudnn_convolution", CONV):
                   ("aten::cudnn_convolution", "same")}  # fmt: skip
    assert two == {both: (ADD, "same")}


def test_what_has_no_operator_is_never_matched_by_what_is_around_it():
    one, two = rules(
        [("(no operator)", "(no operator)"), ("(CUDA graph)", "(CUDA graph)")],
        [("(no operator)", "(no operator)"), ("a", "(no operator)")],
    )
    assert one[("(CUDA graph)", "(CUDA graph)")] == ("(CUDA graph)", "same")
    assert two[("a", "(no operator)")] == ("a", "same")


def test_of_three_sides_two_may_have_a_name():
    keys = rules([("a", "x")], [("a", "x")], [("b", "x")])
    assert keys == [{("a", "x"): ("a", "same")}] * 2 + [{("b", "x"): ("b", "same")}]


def test_a_node_of_a_backward_pass_has_one_name_whoever_recorded_it():
    engine = "autograd::engine::evaluate_function: "
    theirs = [
        ("aten::mm", f"{engine}MmBackward0"),
        ("torch::autograd::AccumulateGrad", f"{engine}torch::autograd::AccumulateGrad"),
        (f"{engine}MmBackward0", f"{engine}MmBackward0"),
        ("aten::cudnn_convolution", f"{engine}ConvBackward0"),
    ]
    ours = [("aten::mm", "MmBackward0"), ("AccumulateGrad",) * 2, ("MmBackward0",) * 2,
            ("aten::miopen_convolution", "ConvBackward0")]  # fmt: skip
    one, two = matched_operators([theirs, ours])
    assert [one[pair] for pair in theirs] == [two[pair] for pair in ours]
    assert one[theirs[1]].timer == "AccumulateGrad"
    assert one[theirs[3]].rule == "outer"
    outermost = [[(outer, outer) for _, outer in side] for side in (theirs, ours)]
    one, two = matched_operators(outermost)
    assert [one[pair] for pair in outermost[0]] == [two[pair] for pair in outermost[1]]
