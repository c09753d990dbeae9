"""Adam takes some small kernels for each of 400 parameters; the twin's is fused."""

import torch
import twins


def train(steps, **how):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.ones(128, device="cuda")) for _ in range(400)]
    optimizer = torch.optim.Adam(parameters, lr=0.01, **how)
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = parameter.detach()
        optimizer.step()
    return round(parameters[0][0].item(), 3)


def fault(steps):
    return train(steps, foreach=False)


def mended(steps):
    return train(steps, fused=True)


twins.run(60, fault, mended, torch.cuda.synchronize)
