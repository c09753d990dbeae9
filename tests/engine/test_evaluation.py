"""Modules in evaluation mode, and what runs without gradients, are validation, not forward."""

from __future__ import annotations

import importlib.util

import pytest

from taupy.answers import layers, phases
from taupy.profiledb.database import ProfileDB
from tests.engine.conftest import has_native
from tests.engine.test_layers import HEAD, run  # noqa: F401

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")


def calls(trial, *names: str) -> dict[str, int]:
    """Calls of the routines and layers of these names, in a validation and outside of it."""
    found: dict[str, int] = {}
    for path in trial.paths():
        is_class = path.names[-1] == "Sequential" and "LAYER" not in path.groups
        if path.names[-1] in names and not is_class:
            kind = "validation" if "validation" in path.names else "other"
            found[kind] = found.get(kind, 0) + path.calls
    return found


def records(view) -> list[dict[str, object]]:
    names = [column.name for column in view.columns]
    return [dict(zip(names, row, strict=True)) for row in view.rows]


def test_a_module_in_evaluation_mode_is_validation(run):  # noqa: F811
    trial = run(
        """
net = Sequential(Leaf(), Leaf())
def both():
    for training in (True, True, False):
        net.__dict__["training"] = training
        net()
    work()
both()
net.__dict__["training"] = False
try:
    net(1, 2, 3, nonsense=True)
except TypeError:
    pass
work()
""",
    )
    assert calls(trial, "Sequential") == {"other": 2, "validation": 2}
    assert trial.under("both", "validation").groups == ("PHASE_VALIDATION",)
    assert calls(trial, "work") == {"other": 4 + 2, "validation": 2}
    with ProfileDB.open(str(trial.database)) as db:
        (view,) = layers.views(db, 1, layers.Options())
        rows = {row["layer"].strip(): row for row in records(view)}
        assert rows["Sequential"]["calls"] == 4
        assert 0 < rows["0"]["validation_ns"] < rows["Sequential"]["validation_ns"]
        assert rows["Sequential"]["forward_ns"] > 0
        kinds = {row["phase"]: row for view in phases.views(db, 1, phases.Options())
                 for row in records(view)}  # fmt: skip
    assert (kinds["validation"]["calls"], kinds["forward"]["calls"]) == (2, 2)


def test_a_module_evaluated_in_another_ones_call_is_part_of_that(run):  # noqa: F811
    trial = run(
        """
class Trains(Module):
    def __init__(self, teacher):
        super().__init__()
        self.__dict__["teacher"] = teacher
    def forward(self):
        self.teacher()
teacher = Leaf()
teacher.__dict__["training"] = False
Trains(teacher)()
"""
    )
    assert {path.names for path in trial.paths() if "validation" in path.names} == set()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_what_pytorch_runs_without_gradients_is_validation(torch_runner):
    trial = torch_runner.run(
        """
import torch
from torch import nn
from torch.nn import functional
net, loss = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.ones(2, 4)
for _ in range(5):
    optimizer.zero_grad()
    functional.mse_loss(net(x), x).backward()
    optimizer.step()
with torch.no_grad():
    for _ in range(3):
        functional.mse_loss(net(x), x)
with torch.inference_mode():
    loss(net(x), x)
net.eval()
net(x)
""",
        "native",
    )
    assert calls(trial, "Sequential") == {"other": 5, "validation": 5}
    assert calls(trial, "mse_loss") == {"other": 5, "validation": 4}
    assert calls(trial, "MSELoss") == {"validation": 1}
    with ProfileDB.open(str(trial.database)) as db:
        (view,) = phases.views(db, 1, phases.Options())
        kinds = {row["phase"]: row["calls"] for row in records(view)}
    assert kinds["forward"] == kinds["loss"] == 5
    assert kinds["validation"] == 3 * 2 + 2 + 1
