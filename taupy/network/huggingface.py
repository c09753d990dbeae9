"""Hugging Face: the Trainer of transformers, as of 5.23, and Accelerate, as of 1.15."""

from __future__ import annotations

_TRAINER = "transformers/trainer.py:Trainer"
_ACCELERATOR = "accelerate/accelerator.py:Accelerator"

ROUTINES = {
    "data": (
        *(f"{_TRAINER}._prepare_inputs", f"{_TRAINER}.get_batch_samples"),
        "accelerate/utils/operations.py:send_to_device",
    ),
    "forward": (f"{_TRAINER}.compute_loss",),
    "loss": ("transformers/trainer_pt_utils.py:LabelSmoother.__call__",),
    "scaling": tuple(f"{_ACCELERATOR}.clip_grad_{name}_" for name in ("norm", "value")),
    "communication": tuple(
        f"{_ACCELERATOR}.{name}" for name in ("gather", "reduce", "wait_for_everyone")
    ),
    "checkpoint": (
        *(f"{_TRAINER}.{name}" for name in ("_save_checkpoint", "save_model")),
        *(f"{_TRAINER}.{name}" for name in ("_load_from_checkpoint", "_load_best_model")),
        *(f"{_ACCELERATOR}.{name}_state" for name in ("save", "load")),
        "transformers/modeling_utils.py:PreTrainedModel.save_pretrained",
        "transformers/modeling_utils.py:PreTrainedModel.from_pretrained",
        *(f"safetensors/torch.py:{name}" for name in ("save_file", "load_file", "save_model")),
    ),
    "validation": tuple(f"{_TRAINER}.{name}" for name in ("evaluation_loop", "predict")),
}
STEPS = {
    "fetch": {f"{_TRAINER}.get_batch_samples": (1,)},
    "fetch_ahead": {"accelerate/data_loader.py:DataLoaderShard.__iter__": (0,)},
    "values": {f"{_TRAINER}.log": (1,), f"{_ACCELERATOR}.log": (1,)},
}
"""As in torch.py."""
