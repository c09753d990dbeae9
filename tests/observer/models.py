"""30 trainings in miniature, each with something that a profiler may disturb.

python models.py NAME ...     prints the facts of each (facts.py), a line of JSON
"""

from __future__ import annotations

import copy
import gc
import random
import sys
import tempfile

import torch
from facts import Facts
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

MODELS = {}
STEPS = 4


def model(function):
    MODELS[function.__name__] = function
    return function


def fit(facts, net, loss_of, optimizer=None, steps=STEPS, inputs=None):
    """Train a network: `loss_of(net(x))`."""
    facts.nets.append(net)
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(steps):
        x = inputs() if inputs else torch.randn(6, 8)
        optimizer.zero_grad()
        output = net(x)
        output = output if isinstance(output, torch.Tensor) else output[0]
        loss = loss_of(output)
        facts.step(loss, output)
        loss.backward()
        facts.look()
        optimizer.step()


def squares(output):
    return output.float().pow(2).mean()


def mlp(*more):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *more, nn.Linear(16, 4))


def images():
    return torch.randn(2, 3, 16, 16)


def sequences():
    return torch.randn(3, 5, 8)


class Residual(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return x + self.body(x)


@model
def perceptron(facts):
    fit(facts, mlp(), squares)


@model
def adamw_and_clipping(facts):
    net = mlp()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    facts.nets.append(net)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = squares(net(torch.randn(6, 8)))
        facts.step(loss)
        loss.backward()
        facts.outputs.append(str(nn.utils.clip_grad_norm_(net.parameters(), 0.1).item()))
        optimizer.step()
        schedule.step()


@model
def convolutions(facts):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(392, 5)
    )
    loss_of = nn.CrossEntropyLoss()
    fit(facts, net, lambda out: loss_of(out, torch.tensor([1, 2])), inputs=images)


@model
def residual_in_place(facts):
    block = nn.Sequential(
        nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True),
        nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(inplace=True),
    )  # fmt: skip
    fit(facts, nn.Sequential(Residual(block), Residual(copy.deepcopy(block))), squares,
        inputs=images)  # fmt: skip


@model
def batch_norm_and_validation(facts):
    net = mlp(nn.BatchNorm1d(16))
    for _ in range(2):
        net.train()
        fit(facts, net, squares, steps=2)
        net.eval()
        with torch.no_grad():
            facts.outputs.append(str(net(torch.ones(3, 8)).sum().item().hex()))


@model
def dropout(facts):
    fit(facts, mlp(nn.Dropout(0.5)), squares)


@model
def lstm(facts):
    fit(facts, nn.LSTM(8, 6, 2, batch_first=True), squares, inputs=sequences)


@model
def gru_both_ways(facts):
    fit(facts, nn.GRU(8, 6, bidirectional=True, batch_first=True), squares, inputs=sequences)


@model
def cells_through_time(facts):
    cell, state = nn.GRUCell(8, 8), torch.zeros(2, 8)
    facts.nets.append(cell)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    for _ in range(STEPS):
        state = state.detach()
        for _ in range(5):
            state = cell(torch.randn(2, 8), state)
        loss = squares(state)
        facts.step(loss, state)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@model
def transformer_encoder(facts):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    fit(facts, nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), squares,
        inputs=sequences)  # fmt: skip


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.head(x + F.scaled_dot_product_attention(q, k, v, is_causal=True))


@model
def decoder_with_tied_weights(facts):
    fit(facts, Decoder(), squares, inputs=lambda: torch.randint(0, 20, (2, 7)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 3, 2, stride=2)

    def forward(self, x):
        return self.up(F.gelu(self.middle(F.gelu(self.down(x))))) + x


@model
def u_net(facts):
    fit(facts, UNet(), squares, inputs=images)


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 6), nn.Linear(3, 8)

    def forward(self, x):
        mean, width = self.encoder(x).chunk(2, -1)
        return self.decoder(mean + torch.randn_like(mean) * width.exp())


@model
def variational(facts):
    fit(facts, Variational(), squares)


@model
def two_networks_against_each_other(facts):
    maker, judge = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 4), nn.LeakyReLU(), nn.Linear(4, 1))
    facts.nets += [maker, judge]
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.01) for net in (maker, judge)]
    for _ in range(STEPS):
        made = maker(torch.randn(3, 4))
        loss = F.softplus(judge(made.detach())).mean() + F.softplus(-judge(torch.ones(3, 8))).mean()
        facts.step(loss)
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
        loss = F.softplus(-judge(made)).mean()
        facts.step(loss, made)
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.blocks = nn.ModuleList(mlp(nn.Dropout(0.3)) for _ in range(2))
        self.join, self.reentrant = nn.Linear(4, 8), reentrant

    def forward(self, x):
        for block in self.blocks:
            x = self.join(checkpoint(block, x, use_reentrant=self.reentrant))
        return x


@model
def checkpoint_reentrant(facts):
    fit(facts, Checkpointed(True), squares,
        inputs=lambda: torch.randn(6, 8, requires_grad=True))  # fmt: skip


@model
def checkpoint_not_reentrant(facts):
    fit(facts, Checkpointed(False), squares)


@model
def autocast(facts):
    with torch.autocast("cpu", torch.bfloat16):
        fit(facts, mlp(), squares)


@model
def scaled_gradients(facts):
    net = mlp()
    facts.nets.append(net)
    optimizer, scaler = torch.optim.SGD(net.parameters(), 0.1), torch.amp.GradScaler("cpu")
    for _ in range(STEPS):
        loss = squares(net(torch.randn(6, 8)))
        facts.step(loss)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        facts.outputs.append(str(scaler.get_scale()))


@model
def penalty_on_gradients(facts):
    net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))
    facts.nets.append(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        x = torch.randn(5, 8, requires_grad=True)
        (gradient,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        loss = (gradient.norm(dim=1) - 1).pow(2).mean()
        facts.step(loss, gradient)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient + 0 * x


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return Doubled.apply(self.inner(x))


@model
def function_in_python(facts):
    fit(facts, Custom(), squares)


@model
def hooks_of_the_programs_own(facts):
    net, seen = mlp(), []
    net[0].register_forward_hook(lambda module, given, output: seen.append(output.sum().item()))
    net[0].register_full_backward_hook(lambda module, given, output: seen.append(len(given)))
    net[3 - 1].weight.register_hook(lambda gradient: gradient * 0.5)
    fit(facts, net, squares)
    facts.outputs += [str(each) for each in seen]


@model
def accumulated_and_retained(facts):
    net = mlp()
    facts.nets.append(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(3):
            loss = squares(net(torch.randn(6, 8))) / 3
            facts.step(loss)
            loss.backward(retain_graph=True)
            loss.backward()
        optimizer.step()


@model
def compiled_graphs(facts):
    net = mlp()
    fit(facts, net, squares)
    compiled = torch.compile(net, backend="eager")
    for size in (6, 6, 7, 9):
        facts.outputs.append(str(compiled(torch.ones(size, 8)).sum().item().hex()))


@model
def compiled_training_in_one_graph(facts):
    net = torch.compile(Residual(nn.Linear(8, 8)), backend="aot_eager", fullgraph=True)
    fit(facts, net, squares)


@model
def scripted_and_traced(facts):
    net = mlp()
    fit(facts, torch.jit.trace(net, torch.randn(6, 8)), squares)
    fit(facts, torch.jit.script(mlp()), squares)


@model
def functional(facts):
    net = mlp()
    facts.nets.append(net)
    parameters = {name: each.detach() for name, each in net.named_parameters()}

    def loss_of(given, x):
        return squares(torch.func.functional_call(net, given, (x[None],)))

    for _ in range(STEPS):
        gradients = torch.func.vmap(torch.func.grad(loss_of), (None, 0))(
            parameters, torch.randn(5, 8)
        )
        parameters = {name: each - gradients[name].mean(0) for name, each in parameters.items()}
        facts.outputs += [str(each.sum().item().hex()) for each in parameters.values()]


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, at):
        return torch.full((8,), float(at)) + torch.randn(8)


@model
def workers_load_data(facts):
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=3, shuffle=True, num_workers=2)
    batches = iter(loader)
    fit(facts, mlp(), squares, inputs=lambda: next(batches))


@model
def distributed(facts):
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=0, world_size=1)
        fit(facts, nn.parallel.DistributedDataParallel(mlp()), squares)
        torch.distributed.destroy_process_group()


class Odd(nn.Module):
    """Makes modules as it goes, deletes some, and answers for no name that it does not have."""

    def __init__(self):
        super().__init__()
        self.first, self.spare = nn.Linear(8, 8), nn.Linear(8, 8)

    def __getattr__(self, name):
        if name not in ("first", "spare"):
            raise AttributeError(f"{name}: asked for what is not there")
        return super().__getattr__(name)

    def forward(self, x):
        if "spare" in self._modules:
            del self._modules["spare"]
        return nn.ReLU()(self.first(x))


@model
def odd_modules(facts):
    fit(facts, Odd(), squares)


@model
def sparse_and_normed(facts):
    net = nn.Sequential(
        nn.EmbeddingBag(10, 8, sparse=True, mode="sum"),
        nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)),
    )
    fit(facts, net, squares, inputs=lambda: torch.randint(0, 10, (4, 3)))


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names:
        gc.collect()  # what an earlier training left would count as memory of this one
        torch.manual_seed(15)
        random.seed(15)
        facts = Facts()
        MODELS[name](facts)
        facts.show()


if __name__ == "__main__":
    main(sys.argv[1:])
