"""A fixed feature extractor and the small head trained on top of it."""
import torch
from torch import nn


class Backbone(nn.Module):
    features = 64

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        )

    def forward(self, images):
        return self.layers(images)


def load_backbone(seed=7):
    torch.manual_seed(seed)
    backbone = Backbone().eval()
    for parameter in backbone.parameters():
        parameter.requires_grad_(False)
    return backbone


def make_head(inputs, classes):
    return nn.Sequential(
        nn.LayerNorm(inputs), nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, classes)
    )
