"""Train a residual network, written from scratch in PyTorch, on small images.

    python resnet.py --depth 18
    python resnet.py --depth 50 --size 32 --width 64 --epochs 3

The layout is that of He et al. (2016) with a 3 x 3 stem, as usual for small images;
`--width 64` is the original number of channels. The images are handwritten digits,
enlarged to `--size`. Runs on the GPU if there is one.
"""

from __future__ import annotations

import argparse
import sys

import digits
import numpy as np

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("resnet.py: PyTorch is missing; install it with: pip install torch")


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution followed by batch normalization."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(inputs, width, 3, stride)
        self.second = convolution(width, width, 3)
        self.shortcut = shortcut(inputs, width, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        residual = self.second(torch.relu(self.first(images)))
        return torch.relu(residual + self.shortcut(images))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions and a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.reduce = convolution(inputs, width, 1)
        self.middle = convolution(width, width, 3, stride)
        self.expand = convolution(width, width * self.expansion, 1)
        self.shortcut = shortcut(inputs, width * self.expansion, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        residual = torch.relu(self.reduce(images))
        residual = self.expand(torch.relu(self.middle(residual)))
        return torch.relu(residual + self.shortcut(images))


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return convolution(inputs, outputs, 1, stride)


LAYOUTS: dict[int, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, ...]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}


class ResNet(nn.Module):
    """A stem, four stages of blocks (each but the first halves the image), a classifier."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        block, lengths = LAYOUTS[depth]
        self.stem = convolution(1, width, 3)
        stages = []
        inputs = width
        for stage, length in enumerate(lengths):
            outputs = width * 2**stage
            for position in range(length):
                stride = 2 if stage > 0 and position == 0 else 1
                stages.append(block(inputs, outputs, stride))
                inputs = outputs * block.expansion
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(inputs, digits.CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        images = self.stages(torch.relu(self.stem(images)))
        return self.classifier(images.mean(dim=(2, 3)))


class Trainer:
    """Holds what one training step needs."""

    def __init__(self, model: ResNet, size: int, device: torch.device) -> None:
        self.model = model.to(device)
        self.size = size
        self.device = device
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def enlarged(self, images: np.ndarray) -> torch.Tensor:
        small = torch.from_numpy(images.reshape(-1, 1, 8, 8)).to(self.device)
        return nn.functional.interpolate(small, size=(self.size, self.size), mode="bilinear")

    def train_step(self, images: np.ndarray, labels: np.ndarray) -> float:
        self.optimizer.zero_grad()
        loss = self.loss(
            self.model(self.enlarged(images)), torch.from_numpy(labels).to(self.device)
        )
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def predict(self, images: np.ndarray) -> np.ndarray:
        self.model.eval()
        with torch.no_grad():
            predicted = self.model(self.enlarged(images)).argmax(dim=1).cpu().numpy()
        self.model.train()
        return predicted


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a residual network on digits.")
    parser.add_argument("--depth", type=int, choices=LAYOUTS, default=18)
    parser.add_argument("--width", type=int, default=16, help="channels of the first stage")
    parser.add_argument("--size", type=int, default=16, help="height and width of the images")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = digits.load()
    model = ResNet(arguments.depth, arguments.width)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"ResNet-{arguments.depth}, {parameters} parameters, PyTorch on {device}")
    trainer = Trainer(model, arguments.size, device)
    for epoch in range(1, arguments.epochs + 1):
        losses = [
            trainer.train_step(images, labels)
            for images, labels in digits.batches(
                data.train_images, data.train_labels, arguments.batch_size, random
            )
        ]
        reached = digits.accuracy(trainer.predict(data.test_images), data.test_labels)
        mean_loss = sum(losses) / len(losses)
        print(f"epoch {epoch:2d}  loss {mean_loss:.3f}  test accuracy {reached:.3f}")


if __name__ == "__main__":
    main()
