"""PyTorch: the routines through which modules are called, and those that are training phases."""

from __future__ import annotations

_MODULE = "torch/nn/modules/module.py"

LAYER_KIND = "module"
"""As `enum LayerKind` in `_native/layers.h`, which looks at the first letter."""

LAYERS = (f"{_MODULE}:Module._wrapped_call_impl",)
"""FILE:NAME of the routines that call a module, their first argument; since PyTorch 2.1."""

OLDER = (f"{_MODULE}:Module._call_impl",)
"""The same for older versions; newer versions call these, too, inside the former."""

PLUMBING = (f"{_MODULE}:Module._call_impl.<locals>.inner",)
"""Routines between those and the module's own `forward`."""

_C10D = "torch/distributed/distributed_c10d.py"
_LOSSES = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "ctc_loss"),
    *("cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div"),
    *("l1_loss", "linear_cross_entropy", "margin_ranking_loss", "mse_loss", "multi_margin_loss"),
    *("multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss"),
    *("smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
    *("triplet_margin_with_distance_loss",),
)
_CHECKPOINT = "torch/distributed/checkpoint/state_dict"
_COLLECTIVES = (
    *("all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single"),
    *("barrier", "broadcast", "gather", "recv", "reduce", "reduce_scatter"),
    *("reduce_scatter_tensor", "scatter", "send"),
)

ROUTINES = {
    "data": ("torch/utils/data/dataloader.py:_BaseDataLoaderIter.__next__",),
    "forward": LAYERS,
    "loss": tuple(f"torch/nn/functional.py:{name}" for name in _LOSSES),
    "backward": (
        *("torch/_tensor.py:Tensor.backward", "torch/autograd/__init__.py:backward"),
        "torch/autograd/__init__.py:grad",
    ),
    "optimizer": (
        *("torch/optim/optimizer.py:Optimizer.profile_hook_step.<locals>.wrapper",),
        *("torch/optim/optimizer.py:Optimizer.zero_grad",),
        *("torch/optim/lr_scheduler.py:LRScheduler.step",),
        *("torch/optim/lr_scheduler.py:ReduceLROnPlateau.step",),
        *("torch/optim/swa_utils.py:AveragedModel.update_parameters",),
    ),
    "scaling": (
        *(f"torch/nn/utils/clip_grad.py:clip_grad_{name}_" for name in ("norm", "value")),
        *(
            f"torch/nn/utils/clip_grad.py:{name}"
            for name in ("_get_total_norm", "_clip_grads_with_norm_")
        ),
        *(f"torch/amp/grad_scaler.py:GradScaler.{name}" for name in ("scale", "step")),
        *(f"torch/amp/grad_scaler.py:GradScaler.{name}" for name in ("unscale_", "update")),
    ),
    "communication": tuple(f"{_C10D}:{name}" for name in _COLLECTIVES),
    "checkpoint": (
        *("torch/serialization.py:save", "torch/serialization.py:load"),
        *(f"{_CHECKPOINT}_saver.py:{name}" for name in ("save", "async_save")),
        f"{_CHECKPOINT}_loader.py:load",
    ),
    "compile": (
        *("torch/_dynamo/convert_frame.py:CatchErrorsWrapper.__call__",),
        *("torch/_inductor/compile_fx.py:compile_fx",),
    ),
}
"""Kind -> FILE:NAME of routines, as of PyTorch 2.13."""

RANGES = {
    "enumerate(DataLoader)#": "data",
    "Optimizer.step#": "optimizer",
    "Optimizer.zero_grad#": "optimizer",
}
"""Prefix of the name of a `record_function` -> kind."""

STEPS = {
    "fetch": {"torch/utils/data/dataloader.py:_BaseDataLoaderIter.__next__": (0,)},
    "samples": {"torch/utils/data/_utils/fetch.py:_MapDatasetFetcher.fetch": (1,)},
    "worker": {"torch/utils/data/_utils/worker.py:_worker_loop": (10,)},
    "backward": {place: () for place in ROUTINES["backward"]},
    "update": {
        "torch/optim/optimizer.py:Optimizer.profile_hook_step.<locals>.wrapper": (0,),
        "torch/amp/grad_scaler.py:GradScaler.step": (1,),
    },
    "groups": {
        f"{_C10D}:{name}": ()
        for name in ("init_process_group", "_new_group_with_tag", "new_group", "split_group")
    },
    "pair": {f"{_C10D}:isend": (), f"{_C10D}:irecv": ()},
    "value": {"torch/utils/tensorboard/writer.py:SummaryWriter.add_scalar": (1, 2)},
    "values": {"torch/utils/tensorboard/writer.py:SummaryWriter.add_scalars": (1, 2)},
}
"""How steps are recognised: role -> FILE:NAME of routines, and which of their variables are
read."""
