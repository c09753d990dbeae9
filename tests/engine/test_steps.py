"""Steps of a training are recognised by what is called: here with a stand-in for PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from taupy.model.profile import Timer
from taupy.network import steps as known
from tests.engine.conftest import has_native

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")

FILES = {
    "torch/nn/modules/module.py": """
class Module:
    def __init__(self, *modules):
        self._modules = dict(enumerate(modules))
        self.training = True
    def __call__(self, *args):
        return self._wrapped_call_impl(*args)
    def _wrapped_call_impl(self, *args):
        return self.forward(*args)
    def forward(self, *args):
        for module in self._modules.values():
            module(*args)
""",
    "torch/_tensor.py": """
class Tensor:
    def backward(self): pass
""",
    "torch/optim/optimizer.py": """
class Optimizer:
    def __init__(self, lr=0.5):
        self.param_groups = [{"lr": lr}]
    def profile_hook_step(func):
        def wrapper(*args, **kwargs):
            return func(*args, **kwargs)
        return wrapper
    def zero_grad(self): pass
    @profile_hook_step
    def step(self, closure=None):
        if closure is not None:
            closure()
            closure()
""",
    "torch/amp/grad_scaler.py": """
class GradScaler:
    def step(self, optimizer, skip=False):
        if not skip:
            optimizer.step()
""",
    "torch/utils/data/_utils/fetch.py": """
class _MapDatasetFetcher:
    def fetch(self, possibly_batched_index):
        return possibly_batched_index
""",
    "torch/utils/data/_utils/worker.py": """
def _worker_loop(kind, dataset, a, b, done, auto, collate, drop, seed, init, worker_id, workers):
    return sum(range(worker_id))
""",
    "torch/utils/data/dataloader.py": """
from torch.utils.data._utils.fetch import _MapDatasetFetcher
class _BaseDataLoaderIter:
    def __init__(self, batches):
        self.left = list(batches)
        self.fetcher = _MapDatasetFetcher()
    def __iter__(self):
        return self
    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.fetcher.fetch(self.left.pop(0))
""",
    "torch/utils/tensorboard/writer.py": """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None): pass
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None): pass
""",
    "tqdm/std.py": """
class tqdm:
    def set_postfix(self, ordered_dict=None, refresh=True, **kwargs): pass
    def set_postfix_str(self, s="", refresh=True): pass
""",
}
HEAD = """
import threading
from torch.nn.modules.module import Module
from torch._tensor import Tensor
from torch.optim.optimizer import Optimizer
from torch.amp.grad_scaler import GradScaler
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.tensorboard.writer import SummaryWriter
from tqdm.std import tqdm
import taupy
net, other, loss = Module(Module()), Module(Module()), Tensor()
first, second = Optimizer(), Optimizer()
def loader(batches=4, size=8):
    return _BaseDataLoaderIter([[0] * size for _ in range(batches)])
def train(batch, optimizer=first):
    net(batch)
    loss.backward()
    optimizer.step()
"""
LOOPS = {
    "batches": ("for batch in loader(): train(batch)", 4, 0),
    "epochs": ("for _ in range(3):\n  for batch in loader(): train(batch)", 12, 0),
    "no loader": ("for _ in range(5): train(None)", 5, 0),
    "no module": ("for _ in range(5):\n  loss.backward()\n  first.step()", 5, 0),
    "optimizer alone": ("for _ in range(5): first.step()", 5, 0),
    "two optimizers": ("for batch in loader():\n  train(batch)\n  train(batch, second)", 4, 0),
    "two optimizers, no loader": ("for _ in range(5):\n  train(0)\n  train(0, second)", 5, 0),
    "one optimizer seldom": (
        "for i, batch in enumerate(loader(10)):\n  train(batch)\n"
        "  if i % 5 == 4: train(batch, second)",
        *(10, 0),
    ),
    "another training follows": (
        "for each in first, second:\n  batches = loader(3)\n"
        "  for _ in range(3): train(next(batches), each)",
        *(6, 0),
    ),
    "accumulation": (
        "for i, batch in enumerate(loader(8)):\n  net(batch)\n  loss.backward()\n"
        "  if i % 4 == 3: first.step()",
        *(2, 0),
    ),
    "closure": (
        "def closure():\n  net()\n  loss.backward()\nfor _ in loader(): first.step(closure)",
        *(4, 0),
    ),
    "scaler that skips": (
        "for i, batch in enumerate(loader()):\n  net(batch)\n  loss.backward()\n"
        "  GradScaler().step(first, skip=i % 2)",
        *(4, 0),
    ),
    "validation": (
        "for _ in range(2):\n  for batch in loader(): train(batch)\n"
        "  for batch in loader(3): net(batch)",
        *(8, 6),
    ),
    "validation within an epoch": (
        "for i, batch in enumerate(loader()):\n  train(batch)\n"
        "  if i % 2:\n    for other in loader(3): net(other)",
        *(4, 6),
    ),
    "accuracy after each step": ("for batch in loader():\n  train(batch)\n  net(batch)", 4, 0),
    "a batch ahead": (
        "def ahead(source):\n  now = next(source)\n  for then in source:\n    yield now\n"
        "    now = then\n  yield now\n"
        "for _ in range(2):\n  for batch in ahead(loader()): train(batch)\n"
        "  net.training = False\n  for batch in ahead(loader(3)): net(batch)\n"
        "  net.training = True",
        *(8, 6),
    ),
    "batches that nothing is done with": (
        "for _ in loader(): pass\nfor b in loader(): train(b)",
        4,
        0,
    ),
    "left early": (
        "for i, batch in enumerate(loader()):\n  train(batch)\n  if i == 1: break",
        2,
        0,
    ),
    "an exception": (
        "try:\n  for i, b in enumerate(loader()):\n    train(b)\n    if i == 2: raise ValueError\n"
        "except ValueError: pass",
        *(3, 0),
    ),
    "another thread": (
        "def work():\n  for batch in loader(): train(batch)\n"
        "one = threading.Thread(target=work)\none.start()\none.join()",
        *(4, 0),
    ),
    "inference alone": ("for _ in range(5): net(0)", 0, 0),
    "said by the program": (
        "for _ in range(3):\n  with taupy.step():\n    for batch in loader(): train(batch)\n"
        "with taupy.step('validation'): net(0)",
        *(3, 1),
    ),
}


@pytest.fixture
def run(runner):
    for path, text in FILES.items():
        file = runner.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for folder in (file.parent, *file.parent.parents):
            if folder == runner.folder:
                break
            (folder / "__init__.py").touch()
    return lambda source, *options: runner.run(HEAD + source, "native", *options)


LOGGED = "kind IN ('training', 'validation')"
"""Of rows of `step_value`: those that the program logged."""


def steps(trial) -> dict[str, int]:
    rows = trial.sql("SELECT kind, sum(count), max(number) FROM step GROUP BY kind ORDER BY kind")
    assert all(count == last for _, count, last in rows)
    return {kind: count for kind, count, _ in rows}


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_steps_of_loops(run, loop):
    source, training, validation = LOOPS[loop]
    wanted = {"training": training, "validation": validation}
    assert steps(run(source + "\n")) == {kind: count for kind, count in wanted.items() if count}


KNOWN = (
    *("Tensor.backward", "_BaseDataLoaderIter.__next__", "GradScaler.step"),
    "Optimizer.profile_hook_step.<locals>.wrapper",
)


def known_calls(trial) -> dict[str, int]:
    return {name: count for name, count in trial.calls().items() if name in KNOWN}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "options"),
    [
        *((loop, ()) for loop in LOOPS),
        ("a batch ahead", ("--c-calls",)),
        ("closure", ("--c-calls",)),
    ],
)
def test_outside_of_a_window_steps_and_phases_are_counted_as_ever(run, loop, options):
    source, training, _ = LOOPS[loop]
    whole, window = run(source + "\n"), run(source + "\n", "--steps", "2:3", *options)
    assert steps(window) == steps(whole)
    assert known_calls(window) == known_calls(whole)
    detailed = [path for path in window.paths() if "steps outside of 2:3" not in path.names]
    outside = [path for path in window.paths() if path not in detailed]
    assert outside
    routines = {path.names[-1] for path in outside if path.files[-1] and path.calls}
    assert routines <= {*KNOWN, "_MapDatasetFetcher.fetch", "Optimizer.zero_grad"}
    assert {path.names[-1] for path in outside if "LAYER" in path.groups} == set()
    if training > 2 and loop != "optimizer alone":
        assert any(path.names[-1] == "Tensor.backward" for path in detailed)
    assert trial_is_whole(window)


def trial_is_whole(trial) -> bool:
    return not {"taupy.invariants", "taupy.health.timers"} & {*trial.metadata()}


EPOCHS = """
def epoch():
    for batch in loader(): train(batch)
def validate():
    net.training = False
    for batch in loader(2): net(batch)
    net.training = True
for _ in range(3):
    epoch()
    validate()
"""


def test_a_window_opens_in_a_routine_that_was_called_after_a_validation(run):
    """What a validation in a routine of its own returns to is no step."""
    trial = run(EPOCHS, "--steps", "10:11")
    assert {name: trial.calls()[name] for name in ("train", "Module.forward")} == {
        "train": 2,
        "Module.forward": 4,
    }


DETAILS = {
    "batches": {"train": 2, "Module.forward": 4},
    "two optimizers": {"train": 4, "Module.forward": 8},
    "said by the program": {"train": 8, "Module.forward": 16},
}


@pytest.mark.parametrize("loop", DETAILS)
def test_a_window_has_the_details_of_its_steps(run, loop):
    trial = run(LOOPS[loop][0] + "\n", "--steps", "2:3")
    calls = {name: trial.calls().get(name) for name in DETAILS[loop]}
    assert calls == DETAILS[loop]
    assert trial.metadata()["taupy.steps"] == "2:3"
    assert "steps 2 to 3 only" in trial.metadata()["taupy.health.steps_window"]


@pytest.mark.slow
def test_a_window_begins_where_no_routine_is_open_that_was_left_out(run):
    trial = run(
        """
def work(n): return n
def batch_of(source):
    for _ in range(3): work(0)
    return next(source)
def epoch(source):
    for _ in range(4):
        train(batch_of(source))
        work(1)
epoch(loader(4))
work(2)
""",
        *("--steps", "3:"),
    )
    assert trial.under("epoch", "train").calls == 2
    assert trial.under("epoch", "work").calls == 2
    assert trial.under("<module>", "work").calls == 1
    # Before its first batch no step is known to have begun; in the third's, none is in detail yet.
    assert trial.under("epoch", "batch_of", "work").calls == 3 + 3
    assert "from 3 on" in trial.metadata()["taupy.health.steps_window"]


@pytest.mark.slow
def test_a_window_that_was_not_reached_is_reported(run):
    trial = run(LOOPS["batches"][0] + "\n", "--steps", "9:")
    assert "the longest training had 4" in trial.metadata()["taupy.health.steps_window"]


@pytest.mark.slow
def test_a_window_of_a_program_that_does_not_train_leaves_nothing_out(run):
    trial = run("def work(): pass\nwork()\n", "--steps", "2:3")
    assert trial.under("<module>", "work").calls == 1
    assert "the longest training had 0" in trial.metadata()["taupy.health.steps_window"]


@pytest.mark.slow
def test_times_samples_and_phases_of_steps(run):
    trial = run(
        """
import time
def slow(*_): time.sleep(0.02)
net._modules[0].forward = slow
for batch in [*range(1)]: pass
for batch in loader(3, 8):
    time.sleep(0.01)
    train(batch)
time.sleep(0.05)
"""
    )
    rows = trial.sql("SELECT time_ns, samples, forward_ns, optimizer_ns, loss_ns FROM step")
    assert len(rows) == 3
    for time_ns, samples, forward_ns, optimizer_ns, loss_ns in rows:
        assert samples == 8
        assert 20e6 < forward_ns < time_ns - 10e6
        assert 0 < optimizer_ns < time_ns - forward_ns
        assert loss_ns is None
    whole = trial.sql("SELECT sum(time_ns) FROM step")[0][0]
    assert whole < trial.sql("SELECT duration_ns FROM trial")[0][0] - 50e6


@pytest.mark.slow
def test_a_model_that_is_tried_before_the_first_batch_is_no_part_of_a_step(run):
    trial = run(
        """
net(0)
SummaryWriter().add_scalar("tried", 1)
for batch in loader(3):
    train(batch)
net(0)
for batch in loader(2):
    SummaryWriter().add_scalar("loss", 2)
    train(batch)
"""
    )
    assert trial.sql("SELECT sum(count), sum(samples) FROM step") == [(5, 40)]
    values = trial.sql("SELECT number FROM step_value WHERE name = 'loss' ORDER BY number")
    assert values == [(4,), (5,)]
    assert trial.sql("SELECT count(*) FROM step_value WHERE name = 'tried'") == [(0,)]


@pytest.mark.slow
def test_values_are_the_python_numbers_that_loggers_receive(run):
    trial = run(
        """
class Never(float):
    def __float__(self): raise SystemError
class Tensor:
    def __getattr__(self, name): raise SystemError
    __float__ = __index__ = __getattr__
writer, bar, event = SummaryWriter(), tqdm(), taupy.user_event("accuracy")
for i, batch in enumerate(loader(3)):
    train(batch)
    writer.add_scalar("loss", 0.5 * i)
    writer.add_scalar("tensor", Tensor())
    bar.set_postfix({"lr": 2, "flag": True, "text": "1"}, epoch=i)
    if i == 1:
        event.sample(0.75)
writer.add_scalar("loss", 9.0)
writer.add_scalar("after", 7.0)
"""
    )
    rows = trial.sql(
        "SELECT name, group_concat(value) FROM step_value"
        f" WHERE {LOGGED} GROUP BY name ORDER BY name"
    )
    assert rows == [
        ("accuracy", "0.75"),
        ("after", "7.0"),
        ("epoch", "0.0,1.0,2.0"),
        ("learning rate", "0.5,0.5,0.5"),
        ("loss", "0.0,0.5,1.0"),
        ("lr", "2.0,2.0,2.0"),
    ]


@pytest.mark.slow
def test_values_may_be_nested_or_in_a_text_and_numpys(run):
    pytest.importorskip("numpy")
    trial = run(
        """
import numpy
endless = {"b": numpy.int64(3)}
endless["a"] = endless
for batch in loader(1):
    train(batch)
    SummaryWriter().add_scalars("accuracy", {"top1": 0.25, "top5": numpy.float32(0.5), "no": [1]})
    tqdm().set_postfix({"train": {"loss": 2.5}, "endless": endless, "array": numpy.ones(1)})
    tqdm().set_postfix_str(" f1=0.75, mean loss : 1e-3,next=4it/s, 7, =2,x=,,time=01:30")
"""
    )
    rows = dict(trial.sql(f"SELECT name, value FROM step_value WHERE {LOGGED}"))
    assert rows.pop("learning rate") == 0.5
    nested = [name for name in rows if name.startswith("endless.")]
    assert nested[:2] == ["endless.a.a.b", "endless.a.b"] and rows["endless.b"] == 3
    assert {name: value for name, value in rows.items() if name not in nested} == {
        **{"accuracy/top1": 0.25, "accuracy/top5": 0.5, "train.loss": 2.5},
        **{"f1": 0.75, "mean loss": 0.001},
    }


@pytest.mark.slow
def test_more_names_of_values_than_a_step_has_room_for_are_left_out_and_reported(run):
    trial = run(
        """
for batch in loader(2):
    train(batch)
    tqdm().set_postfix({f"value {i}": i for i in range(60)})
"""
    )
    assert trial.sql(f"SELECT count(DISTINCT name) FROM step_value WHERE {LOGGED}") == [(32,)]
    (said,) = trial.sql("SELECT value FROM metadata WHERE name LIKE 'taupy.health.step_values%'")
    # The learning rate is the first of the 32 names.
    assert "first 32" in said[0] and "left out: value 31, value 32, value 33," in said[0]
    assert said[0].endswith(", value 46 and others")


@pytest.mark.slow
def test_ever_more_steps_have_bounded_room(run):
    trial = run("for _ in range(40_000): first.step()\n")
    rows = trial.sql("SELECT count(*), max(count), sum(count), min(number) FROM step")
    assert rows == [(10_000, 4, 40_000, 1)]
    assert trial.sql("SELECT count(*) FROM step WHERE longest_ns > time_ns") == [(0,)]


def has_delays() -> bool:
    try:
        return Path("/proc/thread-self/schedstat").read_text().split()[2:] > ["0"]
    except OSError:
        return False


def used(trial, metric: str) -> list[tuple[str, int, float]]:
    """Kind, number and value of each step's metric."""
    return trial.sql(
        "SELECT replace(kind, ' metrics', ''), number, value FROM step_value"
        f" WHERE kind LIKE '% metrics' AND name = '{metric}' ORDER BY kind, number"
    )


@pytest.mark.slow
def test_a_step_has_the_cpu_time_that_its_thread_used_in_it(run):
    trial = run(
        """
import time
tell = SummaryWriter()
def work(turns):
    begin = time.thread_time_ns()
    sum(range(turns))
    tell.add_scalar("own", time.thread_time_ns() - begin)
def loop():
    for batch in loader():
        train(batch)
        work(100_000)
        time.sleep(0.002)
        net.training = False
    for batch in loader(2): net(batch)
other = threading.Thread(target=loop)
other.start()
other.join()
loop()
"""
    )
    rows = trial.sql(
        """SELECT thread_id, number, step.time_ns, cpu.value, own.value FROM step
             JOIN step_value AS cpu USING (thread_id, number)
             JOIN step_value AS own USING (thread_id, number)
            WHERE step.kind = 'training' AND cpu.kind = 'training metrics'
              AND cpu.name = 'cpu_time' AND own.kind = 'training' AND own.name = 'own'"""
    )
    assert len(rows) == 8
    for _, _, time_ns, cpu_ns, own_ns in rows:
        assert own_ns <= cpu_ns <= time_ns
    assert [row[:2] for row in used(trial, "cpu_time") if row[0] == "validation"] == [
        *[("validation", 1)] * 2,
        *[("validation", 2)] * 2,
    ]


@pytest.mark.slow
def test_what_merged_rows_used_adds_up(run):
    trial = run(
        """
import time
begin = time.thread_time_ns()
for _ in range(20_000): first.step()
SummaryWriter().add_scalar("own", time.thread_time_ns() - begin)
"""
    )
    rows = used(trial, "cpu_time")
    ((own,),) = trial.sql("SELECT value FROM step_value WHERE name = 'own'")
    assert len(rows) == 10_000 and 0.5 * own < sum(row[2] for row in rows) <= own


@pytest.mark.slow
def test_work_that_the_program_states_adds_up_in_a_step_and_is_no_logged_value(run):
    trial = run(
        """
flop, moved = taupy.user_event("flop_fp32", "flop"), taupy.user_event("bytes_dram", "B")
other = taupy.user_event("flop_fp64", "GFLOP")
loop = loader()
for batch in loop:
    train(batch)
    if len(loop.left) < 3:
        flop.sample(100)
        flop.sample(20)
        moved.sample(len(loop.left))
        other.sample(5)
"""
    )
    # Before the first statement, work is unknown.
    assert used(trial, "flop_fp32") == [("training", at, 120) for at in (2, 3, 4)]
    assert [value for *_, value in used(trial, "bytes_dram")] == [2, 1, 0]
    assert used(trial, "flop_fp64") == []
    named = trial.sql(f"SELECT DISTINCT name FROM step_value WHERE {LOGGED} ORDER BY name")
    assert named == [("flop_fp64",), ("learning rate",)]


@pytest.mark.slow
@pytest.mark.skipif(not has_delays(), reason="the kernel does not account for run delays")
def test_steps_have_run_delays_and_leave_no_file_open(run):
    trial = run(
        """
import os, time
def count():
    open_now = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            open_now += "schedstat" in os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass
    return open_now
def loop():
    for batch in loader(): train(batch)
threads = [threading.Thread(target=loop) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
while count(): time.sleep(0.001)  # a thread ends a little after it is joined
loop()
assert count() == 1, count()
if os.fork() == 0:
    assert count() == 0, count()
    loop()
    assert count() == 1, count()
    os._exit(0)
assert os.wait()[1] == 0
"""
    )
    rows = used(trial, "run_delay")
    assert len(rows) == 4 * 5 and all(delay >= 0 for *_, delay in rows)
    assert len(used(trial, "cpu_time")) == 4 * 5


@pytest.mark.slow
def test_known_routines_are_recorded_as_ever(run):
    trial = run("for batch in loader(): train(batch)\n")
    calls = {
        path.names[-1]: path.calls
        for path in trial.paths()
        if path.names[-1] in ("Tensor.backward", "_BaseDataLoaderIter.__next__", "Optimizer.step")
    }
    assert calls == {"Tensor.backward": 4, "_BaseDataLoaderIter.__next__": 5, "Optimizer.step": 4}


@pytest.mark.slow
def test_worker_processes_of_a_loader_have_names(run):
    trial = run(
        """
import os
from torch.utils.data._utils.worker import _worker_loop
for number in range(2):
    if (child := os.fork()) == 0:
        _worker_loop(*[None] * 10, number, 2)
        os._exit(0)
    os.waitpid(child, 0)
"""
    )
    rows = trial.sql("SELECT name FROM thread ORDER BY node")
    assert rows == [("MainThread",), ("DataLoader worker 0",), ("DataLoader worker 1",)]


@pytest.mark.slow
def test_processes_of_a_rank_are_named_by_it(run, runner):
    runner.environment |= {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1"}
    trial = run(
        """
import os
from torch.utils.data._utils.worker import _worker_loop
if (child := os.fork()) == 0:
    _worker_loop(*[None] * 10, 0, 2)
    os._exit(0)
os.waitpid(child, 0)
"""
    )
    rows = trial.sql("SELECT name FROM thread ORDER BY node")
    assert rows == [("rank 1",), ("DataLoader worker 0 of rank 1",)]


def test_a_trial_says_that_steps_were_not_recognised():
    range_of_torch = Timer("Optimizer.step#SGD.step", groups=("PHASE", "RECORD_FUNCTION"))
    assert "no steps were recorded" in (known.doubt([Timer("main"), range_of_torch]) or "")
    assert known.doubt([Timer("main"), Timer("Optimizer.step#mine", file="mine.py")]) is None
