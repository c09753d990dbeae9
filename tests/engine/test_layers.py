"""Calls of a network's modules are layers, named by where they stand; the program sees nothing.

Here with a stand-in that lies where PyTorch's `Module` lies; against PyTorch itself at the end.
"""

from __future__ import annotations

import importlib.util

import pytest

from tests.engine.conftest import has_native

STAND_IN = """
class Module:
    def __init__(self):
        self.__dict__["_modules"] = {}
    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._modules[name] = value
        else:
            self.__dict__[name] = value
    def __getattr__(self, name):
        try:
            return self.__dict__["_modules"][name]
        except KeyError:
            raise AttributeError(name) from None
    def add_module(self, name, module):
        self._modules[name] = module
    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)
    def _call_impl(self, *args, **kwargs):
        def inner():
            return self.forward(*args, **kwargs)
        return inner()
    __call__ = _wrapped_call_impl
"""
HEAD = """
import copy, gc, os, sys, threading
from torch.nn.modules.module import Module
def work(): pass
class Leaf(Module):
    def forward(self, *args):
        work()
class Other(Leaf): pass
class Sequential(Module):
    def __init__(self, *modules):
        super().__init__()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)
    def forward(self, *args):
        for module in self._modules.values():
            module(*args)
"""

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")


@pytest.fixture
def run(runner):
    folder = runner.folder / "torch" / "nn" / "modules"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent, folder.parent.parent):
        (package / "__init__.py").write_text("")

    def run(
        source: str,
        *options: str,
        engine: str = "native",
        known: bool = True,
        older: bool = False,
    ):
        stand_in = STAND_IN
        if not known:
            stand_in = STAND_IN.replace("_wrapped_call_impl", "_new_call")
            stand_in = stand_in.replace("_call_impl", "_next_call")
        if older:
            stand_in = STAND_IN.replace("__call__ = _wrapped_call_impl", "__call__ = _call_impl")
        (folder / "module.py").write_text(stand_in)
        return runner.run(HEAD + source, engine, *options)

    return run


def layers(trial) -> dict[str, int]:
    """Names of layers from the outermost in -> calls."""
    found: dict[str, int] = {}
    for path in trial.paths():
        if path.groups == ("LAYER",) and path.calls:
            steps = [*zip(path.names, path.files, strict=True)][1:]
            text = " > ".join(name for name, file in steps if file is None)
            found[text] = found.get(text, 0) + path.calls
    return found


def classes(trial) -> dict[str, str]:
    return {
        short: name
        for short, name in trial.sql(
            "SELECT short_name, timer.name FROM timer JOIN timer_group ON timer_id = timer.id"
            " WHERE timer_group.name = 'LAYER'"
        )
    }


def test_layers_stand_where_the_plumbing_stood(run):
    trial = run(
        """
class Net(Module):
    def __init__(self):
        super().__init__()
        self.body = Sequential(Leaf(), Other())
        self.head = Leaf()
    def forward(self):
        self.body()
        self.head()
        work()
def train():
    net = Net()
    for _ in range(3):
        net()
train()
"""
    )
    assert layers(trial) == {
        "Net": 3,
        "Net > body": 3,
        "Net > body > body.0": 3,
        "Net > body > body.1": 3,
        "Net > head": 3,
    }
    assert classes(trial) == {
        "Net": "Net [Net]",
        "body": "body [Sequential]",
        "body.0": "body.0 [Leaf]",
        "body.1": "body.1 [Other]",
        "head": "head [Leaf]",
    }
    assert trial.under("train", "Net", "Net.forward", "head", "Leaf.forward", "work").calls == 3
    assert trial.under("Net.forward", "work").calls == 3
    assert "_call_impl" not in " ".join(trial.calls())
    assert "inner" not in " ".join(trial.calls())
    net = trial.under("train", "Net")
    assert net.inclusive >= trial.under("train", "Net", "Net.forward").inclusive


def test_a_shared_module_has_one_name_and_a_recursive_one_nests(run):
    trial = run(
        """
class Twice(Module):
    def __init__(self):
        super().__init__()
        self.first = Leaf()
        self.second = self.first
    def forward(self, depth=0):
        self.first()
        self.second()
        if depth:
            self(depth - 1)
Twice()(2)
"""
    )
    assert layers(trial) == {
        "Twice": 1,
        "Twice > first": 2,
        "Twice > Twice": 1,
        "Twice > Twice > first": 2,
        "Twice > Twice > Twice": 1,
        "Twice > Twice > Twice > first": 2,
    }


@pytest.mark.slow
def test_two_models_are_distinguished(run):
    trial = run(
        """
actor, critic, other = Sequential(Leaf()), Sequential(Leaf()), Leaf()
for _ in range(2):
    actor(); critic(); other()
actor._modules["0"]()
"""
    )
    assert layers(trial) == {
        "Sequential": 2,
        "Sequential > 0": 2,
        "Sequential (2)": 2,
        "Sequential (2) > Sequential (2).0": 2,
        "Leaf": 2,
        "0": 1,
    }


@pytest.mark.slow
def test_modules_made_in_forward_stand_for_their_class(run):
    trial = run(
        """
class Net(Module):
    def __init__(self):
        super().__init__()
        self.part = Leaf()
        self.hidden = [Other()]
    def forward(self):
        kept = [Leaf() for _ in range(5)]
        for leaf in kept:
            leaf()
        self.part()
        self.hidden[0]()
        Sequential(Leaf())()
net = Net()
for _ in range(4):
    net()
"""
    )
    assert layers(trial) == {
        "Net": 4,
        "Net > <Leaf>": 20,
        "Net > part": 4,
        "Net > <Other>": 4,
        "Net > <Sequential>": 4,
        "Net > <Sequential> > <Sequential>.0": 4,
    }


@pytest.mark.slow
def test_a_module_that_is_put_in_later_gets_its_name(run):
    trial = run(
        """
class Net(Module):
    def __init__(self):
        super().__init__()
        self.head = Leaf()
    def forward(self):
        for module in [*self._modules.values()]:
            module()
net = Net()
net()
net.head = Other()
net()
net.tail = Leaf()
net()
"""
    )
    assert layers(trial) == {"Net": 3, "Net > head": 3, "Net > tail": 1}
    found = trial.sql(
        "SELECT timer.name FROM timer JOIN timer_group ON timer_id = timer.id"
        " WHERE short_name = 'head' AND timer_group.name = 'LAYER'"
    )
    names = {name for (name,) in found}
    assert names == {"head [Leaf]", "head [Other]"}


@pytest.mark.slow
def test_an_address_that_is_used_again_is_another_layer(run):
    # Leaves change places all the time: names must follow the places, not the addresses.
    trial = run(
        """
class Net(Module):
    def __init__(self):
        super().__init__()
        for name in "abc":
            self.add_module(name, Leaf())
    def forward(self):
        for name in "abc":
            self._modules[name](name)
net = Net()
addresses = set()
for i in range(30):
    net._modules["a"], net._modules["c"] = net._modules["c"], net._modules["a"]
    net._modules["b"] = None
    net._modules["b"] = Leaf()
    addresses.add(id(net._modules["b"]))
    net()
keeps_freed_memory = os.environ.get("TAUPY_SANITIZED") == "address"
assert len(addresses) < 30 or keeps_freed_memory
del net
gc.collect()
Net()()
"""
    )
    assert layers(trial) == {"Net": 31, "Net > a": 31, "Net > b": 31, "Net > c": 31} or layers(
        trial
    ) == {
        "Net": 30, "Net > a": 30, "Net > b": 30, "Net > c": 30,
        "Net (2)": 1, "Net (2) > Net (2).a": 1, "Net (2) > Net (2).b": 1, "Net (2) > Net (2).c": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_exceptions_and_generators_leave_their_layers(run):
    trial = run(
        """
class Fails(Module):
    def forward(self):
        raise KeyError
class Yields(Module):
    def forward(self):
        yield 1
        work()
        yield 2
class Net(Module):
    def __init__(self):
        super().__init__()
        self.fails, self.yields, self.leaf = Fails(), Yields(), Leaf()
    def forward(self):
        try:
            self.fails()
        except KeyError:
            self.leaf()
        for _ in self.yields():
            self.leaf()
net = Net()
net()
try:
    net.fails()
except KeyError:
    work()
"""
    )
    assert layers(trial) == {
        "Net": 1,
        "Net > fails": 1,
        "Net > leaf": 3,
        "Net > yields": 1,
        "fails": 1,
    }
    # A generator runs where it is asked, not in the call that has made it.
    assert trial.under("Net", "Net.forward", "Yields.forward", "work").calls == 1
    assert trial.under("<module>", "work").calls == 1


@pytest.mark.slow
def test_threads_copies_and_forks(run):
    trial = run(
        """
net = Sequential(Leaf(), Other())
net()
threads = [threading.Thread(target=net) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
twin = copy.deepcopy(net)
twin()
class Forks(Module):
    def forward(self):
        if os.fork() == 0:
            net()
            os._exit(0)
        os.wait()
Forks()()
"""
    )
    assert layers(trial) == {
        "Sequential": 4,
        "Sequential > 0": 4,
        "Sequential > 1": 4,
        "Sequential (2)": 1,
        "Sequential (2) > Sequential (2).0": 1,
        "Sequential (2) > Sequential (2).1": 1,
        "Forks": 1,
        "Forks > Forks.<Sequential>": 1,
        "Forks > Forks.<Sequential> > Forks.<Sequential>.0": 1,
        "Forks > Forks.<Sequential> > Forks.<Sequential>.1": 1,
    }


@pytest.mark.slow
def test_many_models_fold_and_so_do_many_modules(run):
    trial = run(
        """
models = [Sequential(Leaf()) for _ in range(12)]
for model in models + models:
    model()
large = Module()
for i in range(11_000):
    large.add_module(f"m{i}", Leaf())
def forward():
    for module in large._modules.values():
        module()
large.forward = forward
large()
large()
"""
    )
    found = layers(trial)
    assert sum(count for name, count in found.items() if name.endswith(".0")) == 24 - 2
    assert found["Sequential (others)"] == 8
    assert "Sequential (9)" not in found
    named = {name: count for name, count in found.items() if " > Module.m" in name}
    assert 9000 < len(named) < 10_000
    assert {*named.values()} == {2}
    assert found["Module > (other Leaf)"] == 2 * (11_000 - len(named))
    assert "more than 10,000 modules" in trial.metadata()["taupy.health.layers"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd",
    [
        "net.__dict__.clear()",
        "net.__dict__['_modules'] = None",
        "net._modules[1] = Leaf(); net._modules['x'] = 3; net._modules['y'] = None",
        "net._modules['self'] = net",
        "Sequential.__getattr__ = lambda self, name: sys.exit(3)",
        "Sequential.__hash__ = Sequential.__eq__ = lambda self, *other: sys.exit(3)",
        "Sequential.__dir__ = Sequential.__len__ = lambda self: sys.exit(3)",
    ],
)
def test_odd_modules_break_nothing(run, odd):
    trial = run(
        f"""
net = Sequential(Leaf())
{odd}
net.__dict__.setdefault('forward', work)
try:
    net()
except (AttributeError, TypeError):
    pass
print("over")
"""
    )
    assert trial.stdout == "over\n"
    assert layers(trial)["Sequential"] == 1


@pytest.mark.slow
def test_a_model_that_is_deleted_while_it_works(run):
    trial = run(
        """
class Net(Module):
    def __init__(self):
        super().__init__()
        self.part = Leaf()
    def forward(self):
        global net
        part = self.part
        del net, self
        gc.collect()
        part()
net = Net()
net()
"""
    )
    assert layers(trial) == {"Net": 1, "Net > part": 1}


@pytest.mark.slow
def test_nothing_is_kept_alive(run):
    trial = run(
        """
import weakref
net = Sequential(Leaf())
counts = [sys.getrefcount(net), sys.getrefcount(net._modules["0"])]
net()
assert counts == [sys.getrefcount(net), sys.getrefcount(net._modules["0"])]
assert weakref.getweakrefcount(net) == 0
gone = weakref.ref(net._modules["0"])
del net
assert gone() is None
"""
    )
    assert layers(trial) == {"Sequential": 1, "Sequential > 0": 1}


@pytest.mark.slow
def test_depth_groups_and_the_option(run):
    source = """
import taupy
net = Sequential(Leaf())
net()
taupy.disable("LAYER")
net()
taupy.enable("LAYER")
net()
taupy.disable("PYTHON")
net()
taupy.enable("PYTHON")
net()
"""
    assert layers(run(source)) == {"Sequential": 3, "Sequential > 0": 3}
    shallow = run(source, "--depth", "3")
    assert layers(shallow) == {"Sequential": 3}
    without = run(source, "--no-layers")
    assert layers(without) == {}
    assert without.calls()["Module._wrapped_call_impl"] == 8
    selected = run(source, "--include", "work")
    assert layers(selected) == {"Sequential": 3, "Sequential > 0": 3}


@pytest.mark.slow
def test_timers_and_ranges_across_layers(run):
    trial = run(
        """
import taupy
class Net(Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
    def forward(self):
        timer = taupy.timer("inside")
        timer.start()
        self.leaf()
        timer.stop()
        self.leaf()
with taupy.timer("around"):
    Net()()
"""
    )
    assert trial.under("around", "Net", "Net.forward", "inside", "leaf").calls == 1
    assert trial.under("around", "Net", "Net.forward", "leaf").calls == 1


@pytest.mark.slow
def test_the_plain_engine_says_that_it_knows_none(run):
    trial = run("Leaf()()", engine="python")
    assert layers(trial) == {}
    assert trial.calls()["Module._wrapped_call_impl"] == 1
    assert "the plain engine knows no layers" in trial.metadata()["taupy.health.layers"]


@pytest.mark.slow
def test_a_framework_that_calls_modules_otherwise_is_named(run):
    trial = run("Leaf()()", known=False)
    assert layers(trial) == {}
    assert "Module._new_call" in trial.metadata()["taupy.health.layers"]


@pytest.mark.slow
def test_modules_of_pytorch_before_2_1_are_layers_too(run):
    trial = run("net = Sequential(Leaf())\nfor _ in range(3): net()\n", older=True)
    assert layers(trial) == {"Sequential": 3, "Sequential > 0": 3}
    assert "Module._call_impl" not in trial.calls()
    assert "taupy.health.layers" not in trial.metadata()


@pytest.mark.slow
def test_a_module_that_takes_itself_out_and_one_that_raises_break_nothing(run):
    trial = run(
        """
class Vanishes(Leaf):
    def forward(self):
        net._modules.pop("1")
        gc.collect()
class Raises(Leaf):
    def __getattr__(self, name): raise SystemError(name)
net = Sequential(Raises(), Vanishes(), Leaf())
net._modules = {**net._modules}
for name in ("0", "1", "2"):
    net._modules[name]()
Sequential.forward = lambda self: [module() for module in [*self._modules.values()]]
net()
print([*net._modules])
"""
    )
    assert trial.stdout == "['0', '2']\n"
    assert sum(layers(trial).values()) == 3 + 3
    assert classes(trial)["0"] == "0 [Raises]"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorchs_own_modules(torch_runner):
    trial = torch_runner.run(
        """
import torch
from torch import nn
net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
for _ in range(2):
    nn.CrossEntropyLoss()(net(torch.rand(1, 3, 8))[0], torch.zeros(3, dtype=torch.long)).backward()
net(torch.rand(1, 3, 8))
""",
        "native",
    )
    found = layers(trial)
    assert found["TransformerEncoder"] == 3
    assert found["CrossEntropyLoss"] == 2
    for i in range(2):
        layer = f"TransformerEncoder > layers.{i}"
        assert found[layer] == 3
        assert found[f"{layer} > layers.{i}.self_attn"] == 3
        assert found[f"{layer} > layers.{i}.linear1"] == 3
    assert "Module._call_impl" not in trial.calls()
