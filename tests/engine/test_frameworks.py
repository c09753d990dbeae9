"""Frameworks above PyTorch and beside it: their phases, steps, layers and logged values.

Here with stand-ins that lie where the frameworks' files lie; against the frameworks themselves at
the end, where they are installed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.engine.conftest import has_native
from tests.engine.test_layers import layers
from tests.engine.test_steps import FILES, HEAD, LOGGED, steps

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")

PROGRAMS = Path(__file__).with_name("framework_programs")
KERAS = {
    "keras/src/layers/layer.py": """
from torch.nn.modules.module import Module
class Layer(Module):
    def __init__(self, name, layers=()):
        Module.__init__(self)
        self.name, self._layers, self._tracker = name, list(layers), None
    def __call__(self, *args):
        return Module.__call__(self, *args)
    def forward(self, *args):
        for layer in self._layers:
            layer(*args)
""",
    "keras/src/trainers/trainer.py": """
class Trainer:
    def _symbolic_build(self, source, model):
        model(next(source))
    def evaluate(self, step, source):
        for batch in source:
            step(batch)
""",
    "keras/src/trainers/epoch_iterator.py": """
class EpochIterator:
    def __init__(self, batches): self.batches = iter(batches)
    def __iter__(self): return self
    def __next__(self): return next(self.batches)
""",
    "keras/src/optimizers/base_optimizer.py": """
class Variable:
    def __init__(self, value): self._value = value
class BaseOptimizer:
    def apply(self): self._backend_update_step(None, None, Variable(0.25))
    def _backend_update_step(self, grads, trainable_variables, learning_rate): pass
""",
    "keras/src/callbacks/callback_list.py": """
from keras.src.callbacks.callback import Callback
class CallbackList:
    def on_train_batch_begin(self, batch, logs=None): pass
    def on_train_batch_end(self, batch, logs=None):
        Callback().on_train_batch_end(batch, {name: float(logs[name]) for name in logs})
    def on_test_batch_begin(self, batch, logs=None): pass
    def on_test_batch_end(self, batch, logs=None):
        Callback().on_test_batch_end(batch, {name: float(logs[name]) for name in logs})
""",
    "keras/src/callbacks/callback.py": """
class Callback:
    def on_train_batch_end(self, batch, logs=None): pass
    def on_test_batch_end(self, batch, logs=None): pass
""",
    "keras/src/callbacks/history.py": """
class History:
    def on_epoch_end(self, epoch, logs=None): pass
""",
}
SKLEARN = {
    "sklearn/base.py": """
def _fit_context():
    def decorator(method):
        def wrapper(estimator, *args):
            return method(estimator, *args)
        return wrapper
    return decorator
class Base:
    @_fit_context()
    def fit(self): return self
    def predict(self): return self.predict_proba()
    def predict_proba(self): return 1
class Scaler(Base): pass
class Classifier(Base): pass
""",
    "sklearn/pipeline.py": """
from sklearn.base import Base, _fit_context
def _fit_one(transformer):
    return transformer.fit()
class Pipeline:
    def __init__(self, steps): self.steps = steps
    @_fit_context()
    def fit(self):
        for name, step in self.steps:
            if step != "passthrough":
                _fit_one(step)
        return self
    def predict(self):
        return self.steps[-1][1].predict()
""",
}
LIGHTNING = {
    "pytorch_lightning/core/module.py": """
class LightningModule:
    def log(self, name, value, prog_bar=False): pass
""",
    "pytorch_lightning/loops/evaluation_loop.py": """
class _EvaluationLoop:
    def run(self, model, source, after=lambda: None):
        now = next(source, None)
        while now is not None:
            then = next(source, None)
            model(now)
            now = then
        after()
""",
    "pytorch_lightning/trainer/trainer.py": """
class Trainer:
    def save_checkpoint(self):
        return sum(range(1000))
""",
}
HUGGING_FACE = {
    "accelerate/data_loader.py": """
class DataLoaderShard:
    def __init__(self, loader, skipped=0): self.loader, self.skipped = loader, skipped
    def __iter__(self):
        source, at = iter(self.loader), 0
        try:
            now = next(source)
        except StopIteration:
            return
        while True:
            try:
                then = next(source)
                if at >= self.skipped:
                    yield now
                at, now = at + 1, then
            except StopIteration:
                yield now
                break
""",
    "transformers/trainer.py": """
class Trainer:
    def get_batch_samples(self, epoch_iterator, num_batches):
        return [next(epoch_iterator) for _ in range(num_batches)]
""",
}


@pytest.fixture
def run(runner):
    for path, text in {**FILES, **KERAS, **SKLEARN, **LIGHTNING, **HUGGING_FACE}.items():
        file = runner.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for folder in (file.parent, *file.parent.parents):
            if folder == runner.folder:
                break
            (folder / "__init__.py").touch()
    return lambda source: runner.run(HEAD + source, "native")


KERAS_FIT = """
from keras.src.layers.layer import Layer
from keras.src.trainers.trainer import Trainer
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.callbacks.callback_list import CallbackList
from keras.src.callbacks.history import History
class Unread:
    def __init__(self, value): self.value = value
    def __float__(self): return self.value
model = Layer("digits", [Layer("features", [Layer("conv")]), Layer("head")])
callbacks, trainer, optimizer = CallbackList(), Trainer(), BaseOptimizer()
trainer._symbolic_build(EpochIterator([0]), model)
def test(batch):
    callbacks.on_test_batch_begin(0)
    model(batch)
    callbacks.on_test_batch_end(0, {"loss": Unread(2.0)})
for epoch in range(2):
    for batch in EpochIterator(loader(4)):
        callbacks.on_train_batch_begin(0)
        model(batch)
        loss.backward()
        optimizer.apply()
        callbacks.on_train_batch_end(0, {"loss": Unread(1.5)})
    trainer.evaluate(test, EpochIterator(loader(3)))
    History().on_epoch_end(epoch, {"loss": 9.0, "rate": 8.0, "val_loss": 7.0})
"""


def test_a_layer_of_keras_is_one_call_whatever_calls_it(run):
    assert layers(run(KERAS_FIT)) == {
        "digits": 15,
        "digits > digits.features": 15,
        "digits > digits.features > digits.features.conv": 15,
        "digits > digits.head": 15,
    }


def test_batches_of_keras_are_steps_with_their_fetch_and_values(run):
    trial = run(KERAS_FIT)
    assert steps(trial) == {"training": 8, "validation": 6}
    assert trial.sql(
        "SELECT kind, name, count(*), min(value), max(value) FROM step_value"
        f" WHERE {LOGGED} GROUP BY kind, name"
    ) == [
        ("training", "learning rate", 8, 0.25, 0.25),
        ("training", "loss", 8, 1.5, 1.5),
        ("training", "rate", 2, 8.0, 8.0),
        ("validation", "loss", 6, 2.0, 2.0),
        ("validation", "val_loss", 2, 7.0, 7.0),
    ]
    rows = trial.sql("SELECT samples, data_ns, forward_ns, backward_ns FROM step ORDER BY number")
    assert all(row[0] == 8 and row[1] > 0 for row in rows)


@pytest.mark.slow
def test_what_keras_builds_or_evaluates_is_no_forward_pass_of_training(run):
    trial = run(KERAS_FIT)
    rows = trial.sql(
        "SELECT kind, count(forward_ns), count(validation_ns), count(compile_ns) FROM step"
        " GROUP BY kind ORDER BY kind"
    )
    assert rows == [("training", 8, 0, 0), ("validation", 6, 0, 0)]


@pytest.mark.slow
def test_steps_of_a_pipeline_are_layers_and_no_forward_pass(run):
    trial = run(
        """
from sklearn.base import Classifier, Scaler
from sklearn.pipeline import Pipeline
class Own:
    def fit(self): return self
def train():
    steps = [("scale", Scaler()), ("no", "passthrough"), ("own", Own()), ("end", Classifier())]
    line = Pipeline(steps)
    for _ in range(3):
        line.fit()
    line.predict()
train()
"""
    )
    assert calls_of(trial) == {"Pipeline": 4, "scale": 3, "own": 3, "end": 4}
    assert {path.groups for path in trial.paths() if path.names[-1] == "end"} == {
        ("ESTIMATOR", "LAYER")
    }
    assert trial.sql("SELECT count(*) FROM step") == [(0,)]


@pytest.mark.slow
def test_validation_of_lightning_is_a_phase_and_its_values_are_read(run):
    trial = run(
        """
from pytorch_lightning.core.module import LightningModule
from pytorch_lightning.loops.evaluation_loop import _EvaluationLoop
module = LightningModule()
for i, batch in enumerate(loader(4)):
    train(batch)
    module.log("train_loss", 0.5)
net.training = False
_EvaluationLoop().run(net, loader(3))
"""
    )
    assert steps(trial) == {"training": 4, "validation": 3}
    rows = trial.sql("SELECT kind, count(forward_ns), count(validation_ns) FROM step GROUP BY kind")
    assert rows == [("training", 4, 0), ("validation", 0, 3)]
    assert trial.sql(f"SELECT name, count(*) FROM step_value WHERE {LOGGED} GROUP BY name") == [
        ("learning rate", 4),
        ("train_loss", 4),
    ]


@pytest.mark.slow
def test_a_checkpoint_after_the_last_batch_of_a_validation_is_outside_of_its_step(run):
    trial = run(
        """
from pytorch_lightning.core.module import LightningModule
from pytorch_lightning.loops.evaluation_loop import _EvaluationLoop
from pytorch_lightning.trainer.trainer import Trainer
def after():
    LightningModule().log("val_loss", 0.5)
    Trainer().save_checkpoint()
for epoch in range(2):
    net.training = True
    for batch in loader(2):
        train(batch)
        if epoch == 1:
            Trainer().save_checkpoint()
    net.training = False
    _EvaluationLoop().run(net, iter(loader(3)), after)
"""
    )
    columns = "count(*), count(checkpoint_ns), count(validation_ns)"
    rows = trial.sql(f"SELECT kind, {columns} FROM step GROUP BY kind")
    assert rows == [("training", 4, 2, 0), ("validation", 6, 0, 6)]
    (last, value) = trial.sql("SELECT number, value FROM step_value WHERE name = 'val_loss'")
    assert (last[0], value[0]) == (3, 6)


@pytest.mark.slow
def test_a_validation_between_batches_of_a_step_has_steps_of_its_own(run):
    trial = run(
        """
from pytorch_lightning.loops.evaluation_loop import _EvaluationLoop
for at, batch in enumerate(loader(6)):
    net(batch)
    loss.backward()
    if at % 2:
        first.step()
    if at == 2:
        net.training = False
        _EvaluationLoop().run(net, iter(loader(3, size=5)))
        net.training = True
"""
    )
    assert steps(trial) == {"training": 3, "validation": 3}
    columns = "samples, validation_ns IS NOT NULL"
    rows = trial.sql(f"SELECT {columns} FROM step WHERE kind = 'training' ORDER BY number")
    assert rows == [(16, 0), (16, 1), (16, 0)]


@pytest.mark.slow
def test_what_follows_the_last_step_of_a_training_is_outside_of_it(run):
    trial = run(
        """
from pytorch_lightning.trainer.trainer import Trainer
batches = loader(3)
for _ in range(3):
    train(next(batches))
Trainer().save_checkpoint()
"""
    )
    assert trial.sql("SELECT count(*), count(checkpoint_ns), count(forward_ns) FROM step") == [
        (3, 0, 3)
    ]


@pytest.mark.slow
def test_samples_belong_to_the_step_that_uses_them_not_to_the_one_that_fetches(run):
    trial = run(
        """
from accelerate.data_loader import DataLoaderShard
from transformers.trainer import Trainer
def unequal(*sizes): return _BaseDataLoaderIter([[0] * size for size in sizes])
for batch in DataLoaderShard(unequal(5, 7, 3), skipped=1):
    train(batch)
net.training = False
for batch in DataLoaderShard(unequal(9, 2)):
    net(batch)
net.training = True
batches = iter(DataLoaderShard(unequal(1, 2, 3, 4, 5)))
for count in (2, 2, 1):
    for at, batch in enumerate(Trainer().get_batch_samples(batches, count)):
        net(batch)
        loss.backward()
    first.step()
    if count == 2:
        for batch in DataLoaderShard(unequal(8)): net(batch)
for batch in DataLoaderShard(unequal()): train(batch)
"""
    )
    rows = trial.sql("SELECT kind, samples FROM step ORDER BY kind, number")
    assert rows == [
        *(("training", samples) for samples in (7, 3, 1 + 2, 3 + 4, 5)),
        *(("validation", samples) for samples in (9, 2, 8, 8)),
    ]


# ---------------------------------------------------------------- the frameworks themselves


def needs(*modules: str):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def of_phase(trial) -> set[str]:
    """The kinds of phases in steps of training."""
    from taupy.network.phases import KINDS

    counts = ", ".join(f"count({kind}_ns)" for kind in KINDS)
    (row,) = trial.sql(f"SELECT {counts} FROM step WHERE kind = 'training'")
    return {kind for kind, count in zip(KINDS, row, strict=True) if count}


def names_of_values(trial) -> set[str]:
    return {name for (name,) in trial.sql(f"SELECT DISTINCT name FROM step_value WHERE {LOGGED}")}


def calls_of(trial) -> dict[str, int]:
    """Layers -> calls, wherever they are called."""
    found: dict[str, int] = {}
    for path in trial.paths():
        if "LAYER" in path.groups and "PHASE_BACKWARD" not in path.groups:
            found[path.names[-1]] = found.get(path.names[-1], 0) + path.calls
    return found


@pytest.fixture
def program(runner, tmp_path):
    def run(name: str, *arguments: str):
        source = (PROGRAMS / f"{name}.py").read_text()
        (runner.folder / "out").mkdir()
        given = [str(runner.folder / "out"), *arguments] if not arguments else [*arguments]
        return runner.run(f"import sys\nsys.argv[1:] = {given!r}\n" + source, "native")

    return run


@needs("pytorch_lightning")
def test_pytorch_lightning(program):
    trial = program("lightning")
    assert steps(trial) == {"training": 16, "validation": 4}
    assert of_phase(trial) >= {"data", "forward", "loss", "backward", "optimizer", "scaling"}
    assert names_of_values(trial) == {"train_loss", "accuracy", "learning rate"}
    assert {"Digits": 20, "encoder.0": 20, "head": 20}.items() <= calls_of(trial).items()


@needs("transformers", "accelerate")
def test_the_trainer_of_hugging_face(program):
    trial = program("transformers_trainer")
    assert steps(trial) == {"training": 8, "validation": 6}
    assert of_phase(trial) >= {"data", "forward", "loss", "backward", "optimizer", "scaling"}
    assert {"loss", "eval_loss", "learning rate", "grad_norm"} <= names_of_values(trial)
    assert set(trial.sql("SELECT kind, samples FROM step")) == {("training", 16), ("validation", 8)}
    assert calls_of(trial)["transformer.h.1.mlp.act"] == 22


@needs("accelerate")
def test_accelerate(program):
    trial = program("accelerate_loop")
    assert steps(trial) == {"training": 12}
    assert of_phase(trial) >= {"data", "forward", "loss", "backward", "optimizer", "scaling"}
    assert names_of_values(trial) == {"loss", "learning rate"}
    assert set(trial.sql("SELECT samples FROM step")) == {(16,)}


@needs("keras", "torch")
def test_keras_with_pytorch(program):
    trial = program("keras_fit", "torch")
    assert steps(trial) == {"training": 12, "validation": 4}
    assert of_phase(trial) >= {"data", "forward", "loss", "backward", "optimizer"}
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= names_of_values(trial)
    counts = "SELECT name, count(*) FROM step_value WHERE kind = 'training' GROUP BY name"
    assert trial.sql(counts) == [("accuracy", 12), ("learning rate", 12), ("loss", 12)]
    assert {"digits": 17, "digits.features.conv": 17}.items() <= calls_of(trial).items()


@needs("keras", "tensorflow")
@pytest.mark.parametrize("eager", [False, True])
def test_keras_with_tensorflow(program, eager):
    trial = program("keras_fit", "tensorflow", *["eager"] * eager)
    assert steps(trial) == {"training": 12, "validation": 4}
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= names_of_values(trial)
    counted = ", ".join(f"count({kind}_ns)" for kind in ("backward", "optimizer", "compile"))
    (rows,) = trial.sql(f"SELECT {counted} FROM step WHERE kind = 'training' AND number > 2")
    assert rows == ((10, 10, 0) if eager else (0, 0, 0))
    counts = "SELECT name, count(*) FROM step_value WHERE kind = 'training' GROUP BY name"
    assert trial.sql(counts) == [("accuracy", 12), ("loss", 12)]
    assert calls_of(trial)["digits.features.conv"] == (16 if eager else 3)


@pytest.mark.slow
@needs("sklearn")
def test_a_pipeline_of_scikit_learn(program):
    found = calls_of(program("sklearn_pipeline"))
    assert {"Pipeline": 8, "columns": 8, "pca": 8, "classifier": 8}.items() <= found.items()
