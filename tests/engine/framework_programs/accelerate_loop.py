"""A loop of the user's own with Hugging Face Accelerate: accumulated gradients, clipping."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
batches = DataLoader(TensorDataset(torch.rand(96, 8), torch.rand(96, 1)), batch_size=8)
model, optimizer, batches, schedule = accelerator.prepare(model, optimizer, batches, schedule)
for _ in range(2):
    for inputs, targets in batches:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            accelerator.log({"loss": loss.item()})
