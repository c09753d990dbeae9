"""Train a small network on real handwritten digits, in NumPy or in PyTorch.

    python mnist.py
    python mnist.py --framework torch --epochs 5 --hidden 256

Prints loss and accuracy of every epoch. With PyTorch it runs on the GPU if there is one.
"""

from __future__ import annotations

import argparse
import sys

import digits
import numpy as np


class Linear:
    """y = x W + b, and the gradients of W, b and x."""

    def __init__(self, inputs: int, outputs: int, random: np.random.Generator) -> None:
        scale = np.sqrt(2 / inputs)
        self.weight = (random.standard_normal((inputs, outputs)) * scale).astype(np.float32)
        self.bias = np.zeros(outputs, dtype=np.float32)
        self.parameters = [self.weight, self.bias]
        self.gradients = [np.zeros_like(self.weight), np.zeros_like(self.bias)]

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        self.inputs = inputs
        return inputs @ self.weight + self.bias

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        weight_gradient, bias_gradient = self.gradients
        np.matmul(self.inputs.T, gradient, out=weight_gradient)
        np.sum(gradient, axis=0, out=bias_gradient)
        return gradient @ self.weight.T


class Relu:
    """max(0, x)."""

    parameters: tuple[np.ndarray, ...] = ()
    gradients: tuple[np.ndarray, ...] = ()

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        self.active = inputs > 0
        return inputs * self.active

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        return gradient * self.active


class SoftmaxLoss:
    """Cross entropy of the softmax, averaged over a batch."""

    def forward(self, scores: np.ndarray, labels: np.ndarray) -> float:
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        self.probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        self.labels = labels
        picked = self.probabilities[np.arange(len(labels)), labels]
        return float(-np.log(picked + 1e-12).mean())

    def backward(self) -> np.ndarray:
        gradient = self.probabilities.copy()
        gradient[np.arange(len(self.labels)), self.labels] -= 1
        return gradient / len(self.labels)


class Adam:
    """Adam (Kingma and Ba, 2015)."""

    def __init__(
        self, parameters: list[np.ndarray], gradients: list[np.ndarray], rate: float = 1e-3
    ) -> None:
        self.parameters = parameters
        self.gradients = gradients
        self.rate = rate
        self.steps = 0
        self.means = [np.zeros_like(parameter) for parameter in parameters]
        self.squares = [np.zeros_like(parameter) for parameter in parameters]

    def step(self) -> None:
        self.steps += 1
        rate = self.rate * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        for parameter, gradient, mean, square in zip(
            self.parameters, self.gradients, self.means, self.squares, strict=True
        ):
            self.update(rate, parameter, gradient, mean, square)

    def update(
        self,
        rate: float,
        parameter: np.ndarray,
        gradient: np.ndarray,
        mean: np.ndarray,
        square: np.ndarray,
    ) -> None:
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        parameter -= rate * mean / (np.sqrt(square) + 1e-8)


class NumpyNetwork:
    """Three linear layers with two rectifiers between them."""

    def __init__(self, hidden: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.layers = [
            Linear(digits.PIXELS, hidden, random),
            Relu(),
            Linear(hidden, hidden, random),
            Relu(),
            Linear(hidden, digits.CLASSES, random),
        ]
        self.loss = SoftmaxLoss()
        self.optimizer = Adam(
            [parameter for layer in self.layers for parameter in layer.parameters],
            [gradient for layer in self.layers for gradient in layer.gradients],
        )

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        for layer in self.layers:
            inputs = layer.forward(inputs)
        return inputs

    def backward(self, gradient: np.ndarray) -> None:
        for layer in reversed(self.layers):
            gradient = layer.backward(gradient)

    def train_step(self, images: np.ndarray, labels: np.ndarray) -> float:
        loss = self.loss.forward(self.forward(images), labels)
        self.backward(self.loss.backward())
        self.optimizer.step()
        return loss

    def predict(self, images: np.ndarray) -> np.ndarray:
        return self.forward(images).argmax(axis=1)


class TorchNetwork:
    """The same network in PyTorch."""

    def __init__(self, hidden: int, seed: int) -> None:
        try:
            import torch
        except ImportError:
            sys.exit("mnist.py: PyTorch is missing; install it with: pip install torch")
        self.torch = torch
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(digits.PIXELS, hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden, hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden, digits.CLASSES),
        ).to(self.device)
        self.loss = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def train_step(self, images: np.ndarray, labels: np.ndarray) -> float:
        inputs = self.torch.from_numpy(images).to(self.device)
        targets = self.torch.from_numpy(labels).to(self.device)
        self.optimizer.zero_grad()
        loss = self.loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def predict(self, images: np.ndarray) -> np.ndarray:
        with self.torch.no_grad():
            scores = self.model(self.torch.from_numpy(images).to(self.device))
        return scores.argmax(dim=1).cpu().numpy()


Network = NumpyNetwork | TorchNetwork


def train_epoch(
    network: Network, data: digits.Digits, batch_size: int, random: np.random.Generator
) -> float:
    """One pass over the training images; the mean loss of its batches."""
    losses = [
        network.train_step(images, labels)
        for images, labels in digits.batches(
            data.train_images, data.train_labels, batch_size, random
        )
    ]
    return sum(losses) / len(losses)


def evaluate(network: Network, data: digits.Digits) -> float:
    return digits.accuracy(network.predict(data.test_images), data.test_labels)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a network on handwritten digits.")
    parser.add_argument("--framework", choices=["numpy", "torch"], default="numpy")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128, help="width of the hidden layers")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in ("epochs", "batch_size", "hidden"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    data = digits.load()
    network: Network
    if arguments.framework == "torch":
        network = TorchNetwork(arguments.hidden, arguments.seed)
        print(f"PyTorch on {network.device}")
    else:
        network = NumpyNetwork(arguments.hidden, arguments.seed)
    print(f"{len(data.train_images)} images to train on, {len(data.test_images)} to test with")
    random = np.random.default_rng(arguments.seed)
    reached = 0.0
    for epoch in range(1, arguments.epochs + 1):
        loss = train_epoch(network, data, arguments.batch_size, random)
        reached = evaluate(network, data)
        print(f"epoch {epoch:2d}  loss {loss:.4f}  test accuracy {reached:.4f}")
    print(f"test accuracy {reached:.4f}")


if __name__ == "__main__":
    main()
