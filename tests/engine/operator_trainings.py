"""Trainings whose operators are counted by torch.profiler, to compare: run as a program.

Prints one line of JSON: for each training, the names of nested operators -> how often they ran.
"""

import contextlib
import json
import sys
import threading

import torch
from torch import nn
from torch._C._profiler import RecordScope, _EventType
from torch.profiler import ProfilerActivity, profile, record_function

ENGINE, NODES = "autograd::engine::", "torch::autograd::"
trainings = []


def training(function):
    trainings.append(function)
    return function


def fit(net, inputs, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        output = net(inputs)
        output = output[0] if isinstance(output, tuple) else output
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@training
def perceptron():
    fit(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(5, 8))


@training
def convolutions():
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)
    )
    fit(net, torch.randn(2, 3, 10, 10))


@training
def lstm():
    fit(nn.LSTM(4, 6, num_layers=2, batch_first=True), torch.randn(2, 5, 4))


@training
def transformer():
    layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    fit(net, torch.randn(2, 6, 16), optimizer)


@training
def many_tensors_at_once():
    net = nn.Linear(4, 4)
    fit(net, torch.randn(2, 4), torch.optim.AdamW(net.parameters(), foreach=True))


@training
def without_gradients():
    with torch.no_grad():
        nn.Linear(4, 4)(torch.randn(2, 4))
    with torch.inference_mode():
        nn.Linear(4, 4)(torch.randn(2, 4))


@training
def without_modules():
    weight = torch.ones(3, 3, requires_grad=True)
    (weight @ weight).exp().sum().backward()


@training
def autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fit(nn.Linear(4, 4), torch.randn(2, 4))


@training
def gradient_of_a_gradient():
    inputs = torch.randn(3, requires_grad=True)
    (first,) = torch.autograd.grad(inputs.pow(3).sum(), inputs, create_graph=True)
    first.square().sum().backward()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        return given.mul(2)

    @staticmethod
    def backward(ctx, gradient):
        with record_function("inside"):
            return gradient.mul(2)


@training
def function_in_python():
    Doubled.apply(torch.ones(3, requires_grad=True)).sum().backward()


@training
def checkpoint():
    from torch.utils.checkpoint import checkpoint

    net = nn.Linear(4, 4)
    for is_reentrant in (False, True):
        inputs = torch.randn(2, 4, requires_grad=True)
        checkpoint(net, inputs, use_reentrant=is_reentrant).sum().backward()


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        given.add(1)
        raise KeyError("inside an operator")


@training
def exceptions():
    for _ in range(3):
        with contextlib.suppress(RuntimeError):
            torch.ones(2, 3) @ torch.ones(2, 3)
        with contextlib.suppress(KeyError):
            Raises.apply(torch.ones(3))
    torch.ones(2).neg()


@training
def generators():
    def batches():
        for size in (2, 3):
            with record_function("batch"):
                yield torch.ones(size).mul(2)

    for batch in batches():
        batch.sum()


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


@training
def subclass():
    torch.ones(3).as_subclass(Subclass).mul(2).sum()


@training
def threads():
    other = threading.Thread(target=begin_elsewhere)
    other.start()
    other.join()
    torch.ones(3).sin()


def begin_elsewhere():
    torch.ones(3).cos()


@training
def scripted():
    function = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    for _ in range(3):
        function(torch.randn(2, 4)).sum().backward()


def compiled_network():
    net = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)))
    fit(net, torch.ones(3, 4))  # what the compiler runs is not compared
    return net


@training
def compiled(net=compiled_network):
    fit(net, torch.randn(3, 4))


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        return torch.full((3,), float(number)).sqrt()


@training
def loading():
    for batch in torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2):
        batch.sum()


@training
def nested_functions():
    torch.func.vmap(lambda row: torch.nn.functional.relu(row).sum())(torch.ones(4, 3))
    torch.func.grad(lambda row: row.sin().sum())(torch.ones(3))


def nesting(profiler):
    """The names of nested operators -> how often they ran."""
    found = {}

    def add(event, path):
        if event.tag == _EventType.TorchOp and event.extra_fields.scope != RecordScope.USER_SCOPE:
            name = event.name.removeprefix(NODES)
            if not name.startswith(ENGINE):
                path = f"{path} > {name}" if path else name
                found[path] = found.get(path, 0) + 1
        for child in event.children:
            add(child, path)

    for event in profiler.profiler.kineto_results.experimental_event_tree():
        add(event, "")
    return found


def main(names):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    expected = {}
    for function in trainings:
        if names and function.__name__ not in names:
            continue
        prepared = [make() for make in function.__defaults__ or ()]
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            function(*prepared)
        expected[function.__name__] = nesting(profiler)
    print(json.dumps(expected))


if __name__ == "__main__":
    main(sys.argv[1:])
