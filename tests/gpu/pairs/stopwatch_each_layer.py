"""A stopwatch waits for the GPU before and after each layer; the twin records events."""

import time

import torch
import twins

torch.manual_seed(0)
layers = [torch.nn.Linear(1024, 1024).cuda().bfloat16() for _ in range(40)]
batch = torch.randn(8192, 1024, device="cuda", dtype=torch.bfloat16)


@torch.no_grad()
def fault(steps):
    seconds = [0.0] * len(layers)
    for _ in range(steps):
        x = batch
        for number, layer in enumerate(layers):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            x = layer(x)
            torch.cuda.synchronize()
            seconds[number] += time.perf_counter() - begin
    return len(seconds)


@torch.no_grad()
def mended(steps):
    marks = []
    for _ in range(steps):
        x = batch
        for layer in layers:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            x = layer(x)
            end.record()
            marks.append((begin, end))
    torch.cuda.synchronize()
    seconds = [0.0] * len(layers)
    for number, (begin, end) in enumerate(marks):
        seconds[number % len(layers)] += begin.elapsed_time(end) / 1e3
    return len(seconds)


twins.run(600, fault, mended, torch.cuda.synchronize)
