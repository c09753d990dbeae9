"""Keras 3, as of 3.15, with the backends PyTorch and TensorFlow.

With TensorFlow a training step is one graph: layers and phases are seen while it is traced, or with
`run_eagerly=True`.
"""

from __future__ import annotations

_SRC = "keras/src"
_TRAINERS = (
    f"{_SRC}/backend/torch/trainer.py:TorchTrainer",
    f"{_SRC}/backend/tensorflow/trainer.py:TensorFlowTrainer",
)
_OPTIMIZERS = (
    f"{_SRC}/optimizers/base_optimizer.py:BaseOptimizer",
    f"{_SRC}/backend/torch/optimizers/torch_parallel_optimizer.py:TorchParallelOptimizer",
)
_CALLBACKS = f"{_SRC}/callbacks/callback_list.py:CallbackList"

LAYER_KIND = "layer"
LAYERS = (f"{_SRC}/layers/layer.py:Layer.__call__",)
PLUMBING = (
    *(f"{_SRC}/ops/operation.py:Operation.__call__",),
    *(f"{_SRC}/backend/torch/layer.py:TorchLayer.forward",),
    *(f"{_SRC}/utils/traceback_utils.py:filter_traceback.<locals>.error_handler",),
    *(f"{_SRC}/utils/traceback_utils.py:inject_argument_info_in_traceback.<locals>.error_handler",),
)

ROUTINES = {
    "data": (
        *(f"{_SRC}/trainers/epoch_iterator.py:EpochIterator.__next__",),
        *(f"{_SRC}/backend/tensorflow/trainer.py:TFEpochIterator.__next__",),
    ),
    "forward": LAYERS,
    "loss": (f"{_SRC}/trainers/trainer.py:Trainer._compute_loss",),
    "backward": ("tensorflow/python/eager/backprop.py:GradientTape.gradient",),
    "optimizer": tuple(
        f"{_SRC}/optimizers/base_optimizer.py:BaseOptimizer.{name}"
        for name in ("apply", "apply_gradients")
    ),
    "validation": tuple(f"{trainer}.{name}" for trainer in _TRAINERS for name in ("evaluate",)),
    "checkpoint": tuple(
        f"{_SRC}/saving/saving_api.py:{name}"
        for name in ("save_model", "load_model", "save_weights", "load_weights")
    ),
    "compile": (
        f"{_SRC}/trainers/trainer.py:Trainer._symbolic_build",
        "tensorflow/python/eager/polymorphic_function/tracing_compilation.py:_create_concrete_function",
    ),
}
STEPS = {
    "fetch": {place: (0,) for place in ROUTINES["data"]},
    "begin": {f"{_CALLBACKS}.on_train_batch_begin": ()},
    "end": {f"{_CALLBACKS}.on_train_batch_end": (2,)},
    "begin_validation": {f"{_CALLBACKS}.on_test_batch_begin": ()},
    "end_validation": {f"{_CALLBACKS}.on_test_batch_end": (2,)},
    "rate": {f"{optimizer}._backend_update_step": (3,) for optimizer in _OPTIMIZERS},
    "values": {
        f"{_SRC}/callbacks/callback.py:Callback.on_{kind}_batch_end": (2,)
        for kind in ("train", "test")
    },
    "values_epoch": {f"{_SRC}/callbacks/history.py:History.on_epoch_end": (2,)},
}
"""As in torch.py."""
