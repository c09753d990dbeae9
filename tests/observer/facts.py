"""What a training can notice of being measured: facts of a network, as JSON that must be equal.

Runs beside the model in the measured process, with and without taupy.
"""

from __future__ import annotations

import gc
import hashlib
import json
import random
import sys

import torch
from torch.nn.modules import module as calls

HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_state_dict_hooks", "_load_state_dict_pre_hooks"),
)
GLOBAL_HOOKS = tuple(name for name in vars(calls) if name.startswith("_global_") and "hook" in name)


class Facts:
    """Of one training; `show` prints them."""

    def __init__(self) -> None:
        self.losses: list[str] = []
        self.outputs: list[str] = []
        self.graphs: list[str] = []
        self.bytes = 0
        self.nets: list[torch.nn.Module] = []

    def step(self, loss: torch.Tensor, *outputs: torch.Tensor) -> None:
        """Before the backward pass of a step: its loss, and what else is to be compared."""
        self.losses.append(loss.detach().double().item().hex())
        self.outputs += [digest(output) for output in outputs]
        self.graphs.append(hashlib.sha256("\n".join(graph(loss)).encode()).hexdigest())
        self.look()

    def look(self) -> None:
        """Note how many bytes the tensors that are alive have."""
        storages = {}
        for thing in gc.get_objects():
            if type(thing) in (torch.Tensor, torch.nn.Parameter) and thing.layout == torch.strided:
                storage = thing.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
        self.bytes = max(self.bytes, sum(storages.values()))

    def show(self) -> None:
        self.look()
        nets = [part for net in self.nets for part in net.modules()]
        parameters = [each for net in self.nets for each in net.parameters()]
        print(
            json.dumps(
                {
                    "losses": self.losses,
                    "outputs": [*self.outputs, *(digest(each) for each in parameters)],
                    "autograd graph": self.graphs,
                    "random state": [digest(torch.get_rng_state()), repr(random.getstate())[-40:]],
                    "hooks": [[len(vars(part).get(name) or ()) for name in HOOKS] for part in nets]
                    + [[len(getattr(calls, name) or ()) for name in GLOBAL_HOOKS]]
                    + [[len(each._backward_hooks or ()) for each in parameters]],
                    "methods": [
                        f"{function.__module__}.{function.__qualname__}"
                        for function in (
                            *(torch.nn.Module.__call__, torch.Tensor.backward),
                            *(torch.optim.Optimizer.step, torch.autograd.backward),
                        )
                    ],
                    "tensor memory": self.bytes,
                    "graphs and recompiles": compiled(),
                }
            )
        )


def digest(tensor: torch.Tensor) -> str:
    whole = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    data = whole.contiguous().view(torch.uint8) if whole.dim() else whole.reshape(1)
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()[:16]


def graph(loss: torch.Tensor) -> list[str]:
    """The nodes of the graph with their numbers, which say whether others were made between."""
    lines, met, todo = [], set(), [loss.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in met:
            continue
        met.add(node)
        after = [each for each, _ in node.next_functions]
        lines.append(f"{node.name()} {node._sequence_nr()} {len(after)} {len(node.metadata)}")
        todo += after
    return lines


def compiled() -> dict[str, dict[str, int]]:
    """Of torch.compile: graphs, breaks, recompilations."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return {}
    kinds = ("stats", "frames", "graph_break", "aot_autograd", "recompiles")
    return {kind: dict(dynamo.counters[kind]) for kind in kinds if kind in dynamo.counters}
