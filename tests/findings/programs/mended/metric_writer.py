"""Softmax regression with torch, metrics streamed to a JSON file."""
import json
import os
import tempfile

import torch


class MetricFile:
    def __init__(self, path):
        self.path = path
        self.records = []

    def write(self, **record):
        self.records.append(record)
        if len(self.records) % 50:
            return
        with open(self.path, "w") as fh:
            json.dump(self.records, fh, indent=1)


def dataset(n=8000, d=100, classes=10):
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=gen)
    w = torch.randn(d, classes, generator=gen)
    return x, (x @ w + torch.randn(n, classes, generator=gen)).argmax(1)


def class_stats(logits, y):
    pred = logits.argmax(1)
    return [round(float(v), 5) for v in
            torch.bincount(y[pred == y], minlength=10) / torch.bincount(y, minlength=10)]


def main(steps=400):
    x, y = dataset()
    w = torch.zeros(100, 10, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.5, momentum=0.9)
    folder = tempfile.mkdtemp()
    metrics = MetricFile(os.path.join(folder, "metrics.json"))
    for step in range(steps):
        logits = x @ w
        loss = torch.nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        metrics.write(step=step, loss=loss.item(), accuracy=class_stats(logits.detach(), y))
    os.remove(metrics.path)
    os.rmdir(folder)
    print("final loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
