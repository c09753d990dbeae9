"""The classifier and one pass of training or evaluation."""
import torch
from torch import nn


def build_model(inputs, classes):
    return nn.Sequential(
        nn.Linear(inputs, 96),
        nn.ReLU(),
        nn.Linear(96, 48),
        nn.ReLU(),
        nn.Linear(48, classes),
    )


def train_epoch(model, loader, optimiser, loss_fn):
    model.train()
    total, seen = 0.0, 0
    for features, labels in loader:
        optimiser.zero_grad(set_to_none=True)
        loss = loss_fn(model(features), labels)
        loss.backward()
        optimiser.step()
        total += loss.item() * len(labels)
        seen += len(labels)
    return total / seen


@torch.no_grad()
def accuracy(model, features, labels):
    model.eval()
    return (model(features).argmax(1) == labels).float().mean().item()
