"""Each cell of a confusion matrix is read from the GPU by itself; the twin reads all at once."""

import torch
import twins

CLASSES = 40
logits = torch.randn(4096, CLASSES, device="cuda")
truth = torch.randint(0, CLASSES, (4096,), device="cuda")


def confusion():
    cells = truth * CLASSES + logits.argmax(1)
    return torch.bincount(cells, minlength=CLASSES * CLASSES).view(CLASSES, CLASSES)


def fault(steps):
    correct = 0
    for _ in range(steps):
        matrix = confusion()
        cells = [[int(matrix[row, column]) for column in range(CLASSES)] for row in range(CLASSES)]
        correct += sum(cells[each][each] for each in range(CLASSES))
    return correct


def mended(steps):
    correct = 0
    for _ in range(steps):
        cells = confusion().tolist()
        correct += sum(cells[each][each] for each in range(CLASSES))
    return correct


twins.run(60, fault, mended, torch.cuda.synchronize)
