"""What layers are made of and compute is noted with them, and nothing of the program runs for it.

Here with a library that plays the one of operators: its tensors are `bytes`, its operators those
that the program tells it of. Against PyTorch itself at the end.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from taupy.answers import layers
from taupy.instrument.torch_library import OPERATORS, Torch
from taupy.profiledb.database import ProfileDB
from tests.engine.conftest import ROOT, has_native
from tests.engine.played import compiler as cxx
from tests.engine.played import environment_of, put_torch
from tests.engine.test_autograd import HEAD

PLAYED = """
#include "operators_host.h"
extern char PyBytes_Type[];
static OperatorsHost *host;
static int is_counting;
static void count(int is_on) { is_counting = is_on; }
static int tensor(void *object, HostTensor *found)
{
    if (((void **)object)[1] != (void *)PyBytes_Type)
        return 0;
    found->dimensions = 2;
    found->item_bytes = 4;
    found->sizes[0] = 2;
    found->sizes[1] = found->items = ((long *)object)[2];
    found->items *= 2;
    char first = ((char *)object)[32];
    found->kind = first == 'i' ? TENSOR_INDICES : first == 'f' ? TENSOR_FLOATS : TENSOR_OTHER;
    found->dimensions += first == 'f';
    found->sizes[2] = 1;
    found->is_number = first == 'n';
    found->number = (double)found->sizes[1];
    return 1;
}
int played_computed(const char *name, long flop)
{
    if (is_counting)
        host->computed(name, flop);
    return is_counting;
}
const char *taupy_operators_begin(OperatorsHost *given)
{
    host = given;
    host->count = count;
    host->tensor = tensor;
    return 0;
}
"""
compiler = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(not has_native, reason="the compiled engine is not built"),
    pytest.mark.skipif(compiler is None or cxx is None, reason="no C and C++ compilers"),
]


@pytest.fixture(scope="module")
def kept(shared) -> Path:
    """The library that plays the one of operators, beside that of autograd."""
    torch = Torch(str(shared / "torch"))
    kept = shared / "state" / f"{torch.name(OPERATORS)}.so"
    source = shared / "played.c"
    source.write_text(PLAYED)
    native = ROOT / "taupy" / "_native"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-I", native, source, "-o", kept], check=True, timeout=120
    )
    kept.chmod(0o600)
    return kept


@pytest.fixture
def run(runner, shared, kept):
    runner.environment |= environment_of(shared)
    tell = f"""
import ctypes
computed = ctypes.CDLL({str(kept)!r}).played_computed
computed.argtypes = [ctypes.c_char_p, ctypes.c_long]
class Computes(Makes):
    def __init__(self, *names, weight=None):
        super().__init__(*names)
        self.__dict__["_parameters"] = {{"weight": weight, "bias": None}}
    def forward(self, *args, **kwargs):
        super().forward()
        computed(b"aten::mm", 10)
        computed(b"aten::relu", -1)
        return [bytes(len(args[0]) + 1)] if args else None
"""
    return lambda source, *options: runner.run(HEAD + tell + source, "native", *options)


def facts(trial) -> dict[str, dict[str, Any]]:
    cursor = trial.connection.execute(
        "SELECT timer.short_name AS name, layer.* FROM layer JOIN timer ON timer.id = timer_id"
    )
    names = [column[0] for column in cursor.description]
    rows = (dict(zip(names, row, strict=True)) for row in cursor.fetchall())
    return {row["name"]: row for row in rows}


def told_of_tokens(trial) -> str:
    ((told,),) = trial.sql("SELECT value FROM metadata WHERE name = 'taupy.tokens'")
    return told


@pytest.mark.slow
def test_parameters_of_modules_that_are_never_called_are_the_callers(run):
    trial = run(
        """
class Holder(Module):
    def __init__(self, *names):
        super().__init__()
        self.__dict__["_parameters"] = {}
        self.used, self.unused = Computes(weight=b"1234567"), Computes(weight=b"123")
        self.unused.__dict__["_parameters"]["more"] = b"1"
        self.unused.later = Computes(weight=b"12")
    def forward(self, is_late):
        self.used()
        if is_late:
            self.unused.later()
net = Holder()
for number in range(3):
    net(number == 1)
"""
    )
    found = facts(trial)
    counted = {name: row["parameters"] for name, row in found.items()}
    assert counted == {"Holder": 2 * (3 + 1), "used": 14, "unused.later": 4}


def test_tokens_of_a_step_are_those_that_its_outermost_modules_receive(run):
    trial = run(
        """
import taupy
class Text(Module):
    def __init__(self, training=True):
        super().__init__()
        self.__dict__["training"], self.inner = training, Computes()
        self._modules["inner"] = self.inner
    def forward(self, mask=None, input_ids=None, **more):
        self.inner(input_ids=b"12345678")
net, teacher, other = Text(), Text(False), Computes()
def step(*args, kind="training", **kwargs):
    with taupy.step(kind):
        teacher(input_ids=b"1234")
        if args or kwargs:
            net(*args, **kwargs)
        other(b"12")
step(None, b"123")
step(input_ids=b"12345", mask=b"1")
step({"input_ids": b"1"})
step(b"1")
step(kind="validation")
step({"input_ids": "no tensor"}, "neither")
with taupy.step():
    taupy.user_event("tokens").sample(77)
    net(input_ids=b"1")
    net(input_ids=b"1")
"""
    )
    rows = trial.sql(
        "SELECT kind, number, value FROM step LEFT JOIN step_value USING (thread_id, kind, number) "
        "WHERE name = 'tokens' ORDER BY kind, number"
    )
    # A tensor that the library plays has twice as many items as bytes.
    assert rows == [
        *(("training", at, value) for at, value in enumerate((6, 10, 2, 8, 8, 77), 1)),
        ("validation", 1, 8),
    ]
    assert told_of_tokens(trial) == "input_ids of Text"


def test_a_model_that_scores_each_id_of_its_first_input_receives_tokens(run):
    trial = run(
        """
import taupy
class Scores(Module):
    def __init__(self, *parts):
        super().__init__()
        self._modules.update(enumerate(parts))
    def forward(self, idx, returned=None, more=None):
        return returned
net, leaf = Scores(Computes()), Scores()
def step(model, *args, **kwargs):
    with taupy.step():
        model(*args, **kwargs)
step(leaf, b"iii", b"fff")
step(net, b"iii", b"ff")
step(net, b"iii", b"iii")
step(net, b"123", b"fff")
step(net, b"fff", b"fff")
step(net, None, b"fff", b"iii")
step(net, b"iii", (None, [b"ff"]))
step(net, b"iii", (b"ff", b"fff"))
step(net, idx=b"ii", returned={"scores": b"ff", "more": 1})
"""
    )
    rows = trial.sql("SELECT number, value FROM step_value WHERE name = 'tokens' ORDER BY number")
    assert rows == [(8, 6), (9, 4)]
    assert told_of_tokens(trial) == "first input of Scores"


@pytest.mark.slow
def test_logged_tensors_are_read_where_this_does_not_wait(run):
    trial = run(
        '''
import taupy
def routine(place, text):
    scope = {}
    exec(compile(text, place, "exec"), scope)
    return next(iter(value for name, value in scope.items() if name[0] != "_"))
log = routine("mlflow/tracking/fluent.py", "def log_metric(key, value): pass")
module = routine(
    "lightning/pytorch/core/module.py",
    """class LightningModule:
    def log(self, name, value): pass""",
)()
with taupy.step():
    Computes()(b"1")
    log("loss", b"nnn")
    log("other", b"1")
    module.log("read later", b"nnn")
'''
    )
    assert trial.sql("SELECT name, value FROM step_value WHERE kind = 'training'") == [("loss", 3)]


@pytest.mark.slow
def test_shapes_parameters_and_operations_of_layers(run):
    trial = run(
        """
class Net(Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Computes(weight=b"1234567"), Computes("MulBackward0")
    def forward(self, x, *, mask=None):
        computed(b"aten::bmm", 1000)
        return self.second(*self.first(x)), {"more": x}
net = Net()
for _ in range(3):
    net(b"123", mask=b"12")
    backward(lambda: computed(b"aten::mm", 7))
"""
    )
    found = facts(trial)
    assert {name: row["input"] for name, row in found.items()} == {
        "Net": "2x3, 2x2",
        "first": "2x3",
        "second": "2x4",
    }
    assert {name: row["output"] for name, row in found.items()} == {
        "Net": "2x5, 2x3",
        "first": "2x4",
        "second": "2x5",
    }
    first, second, net = found["first"], found["second"], found["Net"]
    assert [first[key] for key in ("parameters", "parameter_bytes")] == [14, 56]
    assert [second[key] for key in ("parameters", "parameter_bytes")] == [0, 0]
    assert [net[key] for key in ("parameters", "parameter_bytes")] == [None, None]
    assert net["output_bytes"] == (2 * 5 + 2 * 3) * 4
    assert not any(row["input_varies"] or row["output_varies"] for row in found.values())
    counted = {
        name: (row["calls"], row["flop"], row["backward_flop"]) for name, row in found.items()
    }
    assert counted == {"Net": (3, 3000, None), "first": (3, 30, None), "second": (3, 30, 21)}
    assert {row["unknown"] for row in found.values()} == {"", "aten::relu"}


@pytest.mark.slow
def test_shapes_are_those_of_most_calls(run):
    """The last batch of an epoch has another size, and with it each call that is a power of 2."""
    trial = run(
        """
class Warm(Sequential): ...
class Many(Sequential): ...
net, warm, many = Sequential(Computes()), Warm(Computes()), Many(Computes())
for i in range(1, 1025):
    net(b"123" if i % 4 else b"12")
    warm(b"12" if i <= 8 else b"123")
    many(b"1" * (i % 5 + 10) if i % 2 else b"123")
"""
    )
    columns = "input, output, output_bytes, input_varies, output_varies"
    rows = trial.sql(f"SELECT {columns} FROM layer WHERE output IS NOT NULL")
    assert rows == [("2x3", "2x4", 32, 1, 1)] * 3, rows


@pytest.mark.slow
def test_operations_are_counted_for_a_while(run):
    trial = run(
        """
net = Sequential(Computes())
for _ in range(100):
    net(b"1")
print(computed(b"aten::mm", 5))
"""
    )
    assert trial.stdout == "0\n"
    assert [facts(trial)["0"][name] for name in ("calls", "flop")] == [64, 640]


@pytest.mark.slow
def test_a_layer_that_is_used_late_is_counted_like_the_first(run):
    trial = run(
        """
net = Sequential(Computes())
for _ in range(100):
    net(b"1")
late = Sequential(Computes("MulBackward0"))
for _ in range(3):
    late(b"1")
    backward(lambda: computed(b"aten::mm", 7))
for _ in range(100):
    net(b"1")
"""
    )
    found = facts(trial)
    rows = {name: (row["calls"], row["flop"]) for name, row in found.items()}
    assert rows["Sequential (2).0"] == (3, 30)
    counted = [found["Sequential (2).0"][name] for name in ("backward_passes", "backward_flop")]
    assert counted == [3, 21]
    assert rows["0"][1] == 10 * rows["0"][0] < 2000  # not in the call that was running


@pytest.mark.slow
def test_a_child_process_counts_anew(run):
    trial = run(
        """
net = Sequential(Computes())
net(b"1")
if os.fork() == 0:
    net(b"12")
    os._exit(0)
os.wait()
"""
    )
    rows = trial.sql(
        "SELECT node, input, calls, flop FROM layer JOIN timer ON timer.id = timer_id"
        " WHERE short_name = '0' ORDER BY node"
    )
    assert rows == [(0, "2x1", 1, 10), (1, "2x2", 1, 10)]


@pytest.mark.slow
def test_odd_modules_break_nothing(run):
    trial = run(
        """
class Odd(Module):
    def __init__(self):
        super().__init__()
        self.__dict__["_parameters"] = {"weight": object()}
    def forward(self, *args):
        return args
    def __getattr__(self, name):
        print("asked for", name)
        raise RuntimeError
class Fails(Module):
    def forward(self, x):
        raise ValueError
deep = b"1"
for _ in range(10):
    deep = [deep]
Odd()(deep, {1: (b"12", None)}, object(), *[b"1"] * 40)
try:
    Sequential(Fails())(b"1")
except ValueError:
    print("raised")
"""
    )
    assert trial.stdout == "raised\n"
    found = facts(trial)
    assert found["Odd"]["parameters"] is None
    assert found["Odd"]["input"].startswith("2x2, 2x1, 2x1")
    assert (found["0"]["input"], found["0"]["output"]) == ("2x1", None)


@pytest.mark.slow
def test_without_a_library_nothing_is_known_and_the_trial_says_so(runner, played):
    put_torch(runner.folder, played)
    trial = runner.run(HEAD + "Sequential(Makes('MulBackward0'))()", "native")
    assert facts(trial) == {}
    why = trial.metadata()["taupy.operators"]
    assert why == "not known: `taupy setup torch` has not been run for PyTorch 2.99.0"


MODELS = {
    "resnet18": (
        "torchvision",
        """
from torchvision.models import resnet18
net, x = resnet18(num_classes=10), torch.randn(2, 3, 64, 64)
loss = lambda: net(x).sum()
""",
    ),
    "gpt2": (
        "transformers",
        """
from transformers import GPT2Config, GPT2LMHeadModel
net = GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=4, n_embd=64, vocab_size=500))
x = torch.randint(0, 500, (2, 32))
loss = lambda: net(x, labels=x).loss
""",
    ),
    "unet": (
        "torch",
        """
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.deeper = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm, self.up = nn.BatchNorm2d(8), nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 1)
    def forward(self, x):
        wide = torch.relu(self.norm(self.down(x)))
        deep = torch.relu(self.deeper(wide))
        return self.out(torch.cat([self.up(deep), wide], 1))
net, x = UNet(), torch.randn(2, 3, 32, 32)
loss = lambda: net(x).sum()
""",
    ),
    "lstm": (
        "torch",
        """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 32, 2, batch_first=True), nn.Linear(32, 5)
    def forward(self, x):
        return self.head(self.lstm(x)[0])
net, x = Tagger(), torch.randn(4, 10, 16)
loss = lambda: net(x).sum()
""",
    ),
}
STEPS = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    value = loss()
    forward = counter.get_total_flops()
    value.backward()
print(forward, counter.get_total_flops() - forward)
"""


@pytest.mark.parametrize("name", MODELS)
def test_flop_of_networks_are_those_of_pytorchs_own_counter(request, name):
    package, model = MODELS[name]
    for needed in ("torch", package):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    trial = request.getfixturevalue("torch_runner").run(
        "import torch\nfrom torch import nn\n" + model + STEPS, "native"
    )
    found = facts(trial)
    forward = sum((row["flop"] or 0) / row["calls"] for row in found.values())
    backward = sum((row["backward_flop"] or 0) / row["calls"] for row in found.values())
    if name == "lstm":  # the counter has no formula for it: 40 rows times each weight
        weights = 128 * 16 + 3 * 128 * 32 + 5 * 32
        assert (forward, backward) == (2 * 40 * weights, 4 * 40 * weights)
    else:
        counted = [int(number) for number in trial.stdout.split()[-2:]]
        assert [forward, backward] == counted
    if name == "unet":
        assert found["norm"]["flop"] is None
        assert "aten::native_batch_norm" in found["norm"]["unknown"].split()
        assert found["up"]["output"] == "2x8x32x32"
        assert found["down"]["parameters"] == 8 * 27 + 8


OTHER_CALLS = {
    "calls without a backward pass": (
        """
net = nn.Sequential(nn.Linear(8, 8))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(10):
    optimizer.zero_grad()
    net(torch.randn(8, 8)).sum().backward()
    optimizer.step()
with torch.no_grad():
    for _ in range(10):
        net(torch.randn(8, 8))
""",
        {"0": (20 * 1024, 10 * 1024)},
    ),
    "a layer that is used late": (
        """
nets = [nn.Sequential(nn.Linear(8, 8)) for _ in range(2)]
for net in nets:
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(8, 8)).sum().backward()
        optimizer.step()
""",
        {"0": (3 * 1024, 3 * 1024), "Sequential (2).0": (3 * 1024, 3 * 1024)},
    ),
    "a layer within one that began before": (
        """
class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x, is_late):
        x = self.second(self.first(x)) if is_late else self.first(x)
        return x @ torch.ones(8, 8)
net = Late()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for number in range(4):
    optimizer.zero_grad()
    net(torch.randn(8, 8), number > 1).sum().backward()
    optimizer.step()
""",
        {"Late": (4 * 1024, 4 * 1024), "first": (4 * 1024, 4 * 1024), "second": (2048, 4096)},
    ),
    "a call that is mapped over a batch": (
        """
net = nn.Linear(8, 16)
parameters = {name: each.detach() for name, each in net.named_parameters()}
def call(parameters, row):
    return torch.func.functional_call(net, parameters, (row,)).sum()
torch.func.vmap(call, (None, 0))(parameters, torch.randn(50, 8))
""",
        {"Linear": (2 * 50 * 8 * 16, None)},
    ),
    "a graph that is traced": (
        """
net = torch.compile(nn.Sequential(nn.Linear(16, 32), nn.ReLU()), backend="aot_eager")
with torch.inference_mode():
    for _ in range(6):
        net(torch.ones(8, 16))
""",
        {"<GraphModule>": (6 * 2 * 8 * 16 * 32, None)},
    ),
    "arguments that a formula does not know": (
        """
class Sparse(nn.Module):
    def forward(self, x):
        return torch.mm(torch.eye(8).to_sparse(), x) + torch.mm(x, x)
Sparse()(torch.randn(8, 8))
""",
        {"Sparse": (None, None)},
    ),
    "no data": ('nn.Linear(8, 8, device="meta")(torch.randn(8, 8, device="meta"))\n', {}),
}
"""What is done with layers, and the flop of all their calls and of all backward passes."""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("what", OTHER_CALLS)
def test_flop_are_those_of_what_ran_or_unknown(torch_runner, what):
    program, expected = OTHER_CALLS[what]
    trial = torch_runner.run("import torch\nfrom torch import nn\n" + program, "native")
    with ProfileDB.open(str(trial.database)) as db:
        rows = [
            row
            for view in layers.views(db, 1, layers.Options())
            for cells in view.rows
            for row in [dict(zip((column.name for column in view.columns), cells, strict=True))]
            if row["flop"] is not None or row["backward_flop"] is not None
            or row["layer"].strip() in expected
        ]  # fmt: skip
    found = {row["layer"].strip(): (row["flop"], row["backward_flop"]) for row in rows}
    if what == "a graph that is traced":
        assert [*found.values()] == [*expected.values()]  # PyTorch names the graph's class
    else:
        assert found == expected
    without = {name for row in facts(trial).values() for name in row["unknown"].split()}
    is_known = what != "arguments that a formula does not know"
    assert without.isdisjoint({"aten::mm", "aten::addmm"}) == is_known
