"""PyTorch Lightning, as of 2.6: `pytorch_lightning`, and `lightning`, which contains it."""

from __future__ import annotations

_ROOTS = ("pytorch_lightning", "lightning/pytorch")
_ROUTINES = {
    "data": ("strategies/strategy.py:Strategy.batch_to_device",),
    "forward": ("strategies/strategy.py:Strategy.training_step",),
    "validation": ("loops/evaluation_loop.py:_EvaluationLoop.run",),
    "checkpoint": (
        *("trainer/trainer.py:Trainer.save_checkpoint",),
        *("trainer/connectors/checkpoint_connector.py:_CheckpointConnector._restore_modules_and_callbacks",),
    ),
}  # fmt: skip

ROUTINES = {
    kind: tuple(f"{root}/{place}" for root in _ROOTS for place in places)
    for kind, places in _ROUTINES.items()
}
_VALUES = (
    "callbacks/progress/rich_progress.py:MetricsTextColumn.update",
    "loggers/mlflow.py:MLFlowLogger.log_metrics",
)
STEPS = {
    "value_no_tensor": {f"{root}/core/module.py:LightningModule.log": (1, 2) for root in _ROOTS},
    "values": {
        **{f"{root}/{place}": (1,) for root in _ROOTS for place in _VALUES},
        **{
            f"{fabric}/loggers/csv_logs.py:_ExperimentWriter.log_metrics": (1,)
            for fabric in ("lightning_fabric", "lightning/fabric")
        },
    },
}
"""As in torch.py."""
