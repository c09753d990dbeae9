"""Train a small convolutional network on handwritten digits with PyTorch.

    python torch_cnn.py --epochs 3
    python torch_cnn.py --amp

Runs on the GPU if there is one. `--amp` computes in mixed precision: float16 with
loss scaling on a GPU, bfloat16 on a CPU.
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
    sys.exit("torch_cnn.py: PyTorch is missing; install it with: pip install torch")


class ConvBlock(nn.Module):
    """Convolution, normalization, rectifier."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
        self.normalization = nn.BatchNorm2d(outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.normalization(self.convolution(images)))


class Cnn(nn.Module):
    """Two blocks of convolutions, each halving the image, and one linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.near = ConvBlock(1, width)
        self.far = ConvBlock(width, 2 * width)
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Linear(2 * width * 2 * 2, digits.CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        images = self.pool(self.near(images))
        images = self.pool(self.far(images))
        return self.classifier(images.flatten(1))


class Trainer:
    """Holds what one training step needs."""

    def __init__(self, width: int, amp: bool) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.amp = amp
        self.amp_type = torch.float16 if self.device.type == "cuda" else torch.bfloat16
        self.model = Cnn(width).to(self.device)
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        scaled = amp and self.amp_type is torch.float16
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scaled)

    def scores(self, images: np.ndarray) -> torch.Tensor:
        inputs = torch.from_numpy(images.reshape(-1, 1, 8, 8)).to(self.device)
        with torch.autocast(self.device.type, dtype=self.amp_type, enabled=self.amp):
            return self.model(inputs)

    def train_step(self, images: np.ndarray, labels: np.ndarray) -> float:
        self.optimizer.zero_grad()
        targets = torch.from_numpy(labels).to(self.device)
        loss = self.loss(self.scores(images).float(), targets)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return float(loss.item())

    def predict(self, images: np.ndarray) -> np.ndarray:
        self.model.eval()
        with torch.no_grad():
            predicted = self.scores(images).argmax(dim=1).cpu().numpy()
        self.model.train()
        return predicted


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a convolutional network on digits.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=16, help="channels of the first block")
    parser.add_argument("--amp", action="store_true", help="mixed precision")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    data = digits.load()
    trainer = Trainer(arguments.width, arguments.amp)
    print(f"PyTorch on {trainer.device}, {'mixed' if arguments.amp else 'single'} precision")
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
