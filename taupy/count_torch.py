"""PyTorch's operators counted by their shapes, for `taupy.count`.

Products go by PyTorch's own formulas (torch.utils.flop_counter); functions of elements and
reductions, of which it counts none, by ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from taupy.catalog.operations import FLOP_OF_FUNCTION, REDUCTIONS, Work, complex_factor

_FREE = frozenset(
    {"detach", "empty", "empty_like", "empty_strided", "new_empty", "lift_fresh", "_to_copy"}
    | {"zeros", "zeros_like", "ones_like", "full_like", "fill", "zero", "copy", "clone", "set"}
    | {"cat", "stack", "index_select", "gather", "scatter", "index", "index_put", "relu", "where"}
    | {"max", "min", "argmax", "argmin", "eq", "ne", "lt", "gt", "le", "ge", "maximum", "minimum"}
    | {
        "clamp",
        "neg",
        "abs",
        "sign",
        "bernoulli",
        "normal",
        "uniform",
        "random",
        "randperm",
        "randn",
        "rand",
    }
    | {"threshold_backward", "max_pool2d_with_indices", "max_pool2d_with_indices_backward"}
    | {"native_dropout", "embedding", "constant_pad_nd", "arange", "nll_loss_forward", "topk"}
    | {"nll_loss_backward", "_local_scalar_dense", "select_backward", "slice_backward", "sort"}
    | {"logical_and", "logical_not", "bitwise_and", "masked_fill", "one_hot", "full", "ones"}
    | {"new_zeros", "new_ones", "new_full", "scalar_tensor", "is_same_size", "equal", "resize"}
    | {"_unsafe_view", "randint", "new_empty_strided"}
)
"""Known to do no arithmetic; their bytes count."""


# oneDNN's layer of an RNN; backward makes two products of each one forward.
_RECURRENT = {"mkldnn_rnn_layer": 1.0, "mkldnn_rnn_layer_backward": 2.0}


def _recurrent(inputs: Any, of_input: Any, of_hidden: Any) -> float:
    """Products of one layer, all steps: inputs (steps, batch, features), two weights."""
    cells = float(inputs.shape[0] * inputs.shape[1])
    return 2.0 * cells * float(of_input.numel() + of_hidden.numel())


def _attention(query: Any, key: Any, value: Any) -> float:
    """Two products of every head; also of a causal mask, which may save half of them."""
    *many, rows, width = query.shape
    return float(2 * math.prod(many) * rows * key.shape[-2] * (width + value.shape[-1]))


# Products that PyTorch's own table lacks; attention's gradient makes five products for two.
_PRODUCTS: dict[str, Callable[..., float]] = {
    "mv": lambda matrix, *_: 2.0 * matrix.numel(),
    "addmv": lambda start, matrix, *_: 2.0 * matrix.numel(),
    "dot": lambda first, *_: 2.0 * first.numel(),
    "vdot": lambda first, *_: 2.0 * first.numel(),
    "addr": lambda start, *_: 2.0 * start.numel(),
    "_scaled_dot_product_flash_attention_for_cpu": lambda *given: _attention(*given[:3]),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        lambda grad, *given: 2.5 * _attention(*given[:3])
    ),
}


def watch(note: Callable[[Work, str], None], unknown: dict[str, int]) -> Any:
    """Count every operator of this thread from now on.

    Args:
        note: receives the work and the element type of each operator.
        unknown: receives the names of operators without a formula.

    Returns:
        The mode that watches; its `__exit__` ends it.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import flop_registry

    def tensors(tree: Any) -> list[Any]:
        return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]

    composite = torch._C.DispatchKey.CompositeImplicitAutograd

    def is_composite(function: Any) -> bool:
        return function._overloadpacket not in flop_registry and bool(
            torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), composite)
        )

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if torch.is_inference_mode_enabled() and is_composite(function):
                # Without autograd nobody has taken it (linear, lstm) apart before.
                with self:
                    return function._op_dk(composite, *args, **kwargs)
            result = function(*args, **kwargs)
            returns = function._schema.returns
            if returns and all(r.alias_info and not r.alias_info.is_write for r in returns):
                return result  # a view moves nothing
            inputs, outputs = tensors((args, kwargs)), tensors(result)
            shown = outputs or inputs
            if not shown:
                return result
            floating = [
                tensor
                for tensor in (*outputs, *inputs)
                if tensor.dtype.is_floating_point or tensor.dtype.is_complex
            ]
            kind = (floating or shown)[0].dtype
            moved = sum(tensor.numel() * tensor.element_size() for tensor in (*inputs, *outputs))
            name = function._schema.name.partition("::")[2]
            stem = name.rstrip("_") if not name.startswith("__") else name
            packet = function._overloadpacket
            if stem in _RECURRENT:
                flop = _RECURRENT[stem] * _recurrent(*args[:3])
            elif stem in _PRODUCTS:
                flop = _PRODUCTS[stem](*args)
            elif packet in flop_registry:
                flop = float(flop_registry[packet](*args, **kwargs, out_val=result))
            elif stem in FLOP_OF_FUNCTION and floating:
                flop = FLOP_OF_FUNCTION[stem] * sum(tensor.numel() for tensor in shown)
            elif stem in REDUCTIONS and floating:
                flop = REDUCTIONS[stem] * float(sum(tensor.numel() for tensor in inputs))
            else:
                flop = 0.0
                if stem not in _FREE:
                    unknown[name] = unknown.get(name, 0) + 1
            if kind.is_complex:
                flop *= complex_factor(stem)
            note(Work(flop, float(moved)), str(kind).removeprefix("torch."))
            return result

    mode = Counting()
    mode.__enter__()
    return mode
