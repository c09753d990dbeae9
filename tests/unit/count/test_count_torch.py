"""PyTorch's operators, forward and backward, by their shapes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from taupy.count_torch import watch  # noqa: E402


@pytest.fixture
def counted():
    """Runs a function and gives its flop by element type, its bytes and unknown names."""

    def run(function):
        flop, unknown = {}, {}
        moved = [0.0]

        def note(work, element_type):
            flop[element_type] = flop.get(element_type, 0) + work.flop
            moved[0] += work.bytes

        mode = watch(note, unknown)
        try:
            function()
        finally:
            mode.__exit__(None, None, None)
        return flop, moved[0], unknown

    return run


def test_a_product_and_its_gradients(counted):
    left = torch.ones(64, 256)
    weight = torch.ones(256, 512, requires_grad=True)
    flop, _, unknown = counted(lambda: (left @ weight).backward(torch.ones(64, 512)))
    # The input wants no gradient: one product forward, one back.
    assert flop["float32"] == 2 * (2 * 64 * 256 * 512)
    assert unknown == {}


def test_convolutions_and_recurrent_layers(counted):
    layer = torch.nn.Conv2d(8, 16, 3, bias=False)
    flop, _, _ = counted(lambda: layer(torch.ones(4, 8, 32, 32)))
    assert flop["float32"] == 2 * 4 * 16 * 30 * 30 * 8 * 9
    recurrent = torch.nn.LSTM(32, 16)
    flop, _, unknown = counted(lambda: recurrent(torch.ones(10, 4, 32)))
    assert flop["float32"] >= 2 * 10 * 4 * 4 * 16 * (32 + 16)
    assert unknown == {}


def test_without_autograd_the_same_is_counted(counted):
    """In inference mode, `linear` and `lstm` arrive as a whole."""
    layers = [torch.nn.Conv2d(8, 16, 3), torch.nn.Linear(32, 8), torch.nn.LSTM(32, 16)]
    inputs = torch.ones(4, 8, 32, 32), torch.ones(4, 32), torch.ones(10, 4, 32)

    def forward(mode):
        with mode():
            for layer, given in zip(layers, inputs, strict=True):
                layer(given)

    expected = counted(lambda: forward(torch.no_grad))
    found = counted(lambda: forward(torch.inference_mode))
    assert found[0] == expected[0]
    assert found[2] == expected[2] == {}


def test_products_that_pytorchs_own_table_lacks(counted):
    vector, matrix = torch.ones(32), torch.ones(16, 32)
    assert counted(lambda: matrix @ vector)[0] == {"float32": 2 * 16 * 32}
    assert counted(lambda: vector @ vector)[0] == {"float32": 2 * 32}
    turned = torch.ones(8, 16, dtype=torch.complex64), torch.ones(16, 4, dtype=torch.complex64)
    (flop,) = counted(lambda: turned[0] @ turned[1])[0].values()
    assert flop == 8 * 8 * 16 * 4
    (flop,) = counted(lambda: turned[0] * turned[0])[0].values()
    assert flop == 6 * 8 * 16


def test_attention_and_its_gradient(counted):
    query = torch.ones(2, 4, 64, 32, requires_grad=True)
    key = torch.ones(2, 4, 48, 32)
    attend = torch.nn.functional.scaled_dot_product_attention
    forward = 2 * 4 * (2 * 64 * 48 * 32 * 2)
    flop, _, unknown = counted(lambda: attend(query.detach(), key, key))
    assert (flop["float32"], unknown) == (forward, {})
    flop, _, unknown = counted(lambda: attend(query, key, key).backward(torch.ones(2, 4, 64, 32)))
    assert (flop["float32"], unknown) == (3.5 * forward, {})


def test_views_move_nothing_and_functions_of_elements_all_they_touch(counted):
    array = torch.ones(10, 20, dtype=torch.float64)
    assert counted(lambda: array.t().reshape(20, 10)[3:])[:2] == ({}, 0)
    flop, moved, _ = counted(lambda: torch.exp(array))
    assert (flop, moved) == ({"float64": 200}, 2 * 200 * 8)


def test_what_has_no_formula_is_named(counted):
    flop, _, unknown = counted(lambda: torch.linalg.eigvals(torch.eye(4)))
    assert sum(flop.values()) == 0
    assert "linalg_eig" in unknown or "linalg_eigvals" in unknown
