"""A transformer's training in FP32; the twin's is in bfloat16 by autocast."""

import torch
import twins

torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0, batch_first=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(16, 512, 1024, device="cuda")


def train(steps, enabled):
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=enabled):
            loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return round(loss.item(), 1)


def fault(steps):
    return train(steps, False)


def mended(steps):
    return train(steps, True)


twins.run(120, fault, mended, torch.cuda.synchronize)
