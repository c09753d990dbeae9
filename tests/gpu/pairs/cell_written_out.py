"""A cell's gates are small kernels, launched one by one; the twin captures them in a CUDA graph."""

import torch
import twins

LENGTH, WIDTH = 100, 256
torch.manual_seed(0)
w, u = (torch.randn(WIDTH, 4 * WIDTH, device="cuda") / WIDTH for _ in range(2))
sequence = torch.randn(LENGTH, 32, WIDTH, device="cuda")


def cell(x, hidden, memory):
    i, f, g, o = (x @ w + hidden @ u).chunk(4, 1)
    memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(memory), memory


def unrolled():
    hidden = memory = torch.zeros(32, WIDTH, device="cuda")
    for x in sequence:
        hidden, memory = cell(x, hidden, memory)
    return hidden.sum()


def fault(steps):
    for _ in range(steps):
        total = unrolled()
    return round(total.item(), 2)


def mended(steps):
    unrolled()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = unrolled()
    for _ in range(steps):
        graph.replay()
    return round(total.item(), 2)


twins.run(60, fault, mended, torch.cuda.synchronize)
