"""Experiment loggers: the routines that receive loss, accuracy and the like."""

from __future__ import annotations

STEPS: dict[str, dict[str, tuple[int, ...]]] = {
    "value": {
        "mlflow/tracking/client.py:MlflowClient.log_metric": (2, 3),
        "mlflow/tracking/fluent.py:log_metric": (0, 1),
        "tensorboardX/writer.py:SummaryWriter.add_scalar": (1, 2),
    },
    "values": {
        "mlflow/tracking/fluent.py:log_metrics": (0,),
        "tensorboardX/writer.py:SummaryWriter.add_scalars": (1, 2),
        "tqdm/std.py:tqdm.set_postfix": (1, 3),
        "tqdm/std.py:tqdm.set_postfix_str": (1,),
        "wandb/sdk/wandb_run.py:Run.log": (1,),
    },
}
"""As in torch.py."""
