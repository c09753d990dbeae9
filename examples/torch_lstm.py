"""Train an LSTM on handwritten digits with PyTorch, each image read row by row.

    python torch_lstm.py --epochs 6
    python torch_lstm.py --cell fused

`--cell scratch` is an LSTM cell written here, with one Python call per row; `--cell fused`
is PyTorch's own. Runs on the GPU if there is one.
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
    sys.exit("torch_lstm.py: PyTorch is missing; install it with: pip install torch")

ROWS = 8
COLUMNS = 8


class Cell(nn.Module):
    """One step of an LSTM (Hochreiter and Schmidhuber, 1997; forget gate: Gers, 2000)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs + hidden, 4 * hidden)

    def forward(
        self, row: torch.Tensor, state: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gates = self.gates(torch.cat([row, state], dim=1))
        write, keep, read, candidate = gates.chunk(4, dim=1)
        memory = torch.sigmoid(keep) * memory + torch.sigmoid(write) * torch.tanh(candidate)
        return torch.sigmoid(read) * torch.tanh(memory), memory


class ScratchLstm(nn.Module):
    """The cell above, applied row by row; returns the last state."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cell = Cell(inputs, hidden)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        state = memory = rows.new_zeros(rows.shape[0], self.hidden)
        for row in rows.unbind(dim=1):
            state, memory = self.cell(row, state, memory)
        return state


class FusedLstm(nn.Module):
    """PyTorch's LSTM; returns the last state."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(rows)
        return states[:, -1]


class Classifier(nn.Module):
    """An LSTM over the rows of an image, and one linear layer."""

    def __init__(self, lstm: nn.Module, hidden: int) -> None:
        super().__init__()
        self.lstm = lstm
        self.linear = nn.Linear(hidden, digits.CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.linear(self.lstm(images.view(-1, ROWS, COLUMNS)))


def train_step(
    model: nn.Module,
    loss_function: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
) -> float:
    optimizer.zero_grad()
    loss = loss_function(model(images), labels)
    loss.backward()
    optimizer.step()
    return float(loss.item())


def main() -> None:
    parser = argparse.ArgumentParser(description="Train an LSTM on digits read row by row.")
    parser.add_argument("--cell", choices=["scratch", "fused"], default="scratch")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = digits.load()
    lstm = ScratchLstm if arguments.cell == "scratch" else FusedLstm
    model = Classifier(lstm(COLUMNS, arguments.hidden), arguments.hidden).to(device)
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    print(f"PyTorch on {device}, {arguments.cell} cell")
    for epoch in range(1, arguments.epochs + 1):
        losses = [
            train_step(
                model,
                loss_function,
                optimizer,
                torch.from_numpy(images).to(device),
                torch.from_numpy(labels).to(device),
            )
            for images, labels in digits.batches(
                data.train_images, data.train_labels, arguments.batch_size, random
            )
        ]
        with torch.no_grad():
            scores = model(torch.from_numpy(data.test_images).to(device))
        reached = digits.accuracy(scores.argmax(dim=1).cpu().numpy(), data.test_labels)
        mean_loss = sum(losses) / len(losses)
        print(f"epoch {epoch:2d}  loss {mean_loss:.3f}  test accuracy {reached:.3f}")


if __name__ == "__main__":
    main()
