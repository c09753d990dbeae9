"""A digit classifier with PyTorch Lightning: two epochs of training, validation, logged values."""

import logging
import sys
import warnings

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
EPOCHS, BATCH, TRAIN, HELD_OUT = 2, 16, 128, 32


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(144, 10)

    def forward(self, images):
        return self.head(self.encoder(images))

    def training_step(self, batch, at):
        images, labels = batch
        loss = nn.functional.cross_entropy(self(images), labels)
        self.log("train_loss", loss.item())
        return loss

    def validation_step(self, batch, at):
        images, labels = batch
        self.log("accuracy", (self(images).argmax(1) == labels).float().mean().item())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def loader(samples):
    data = TensorDataset(torch.rand(samples, 1, 8, 8), torch.randint(10, (samples,)))
    return DataLoader(data, batch_size=BATCH)


torch.manual_seed(1)
trainer = pl.Trainer(
    max_epochs=EPOCHS,
    accelerator="cpu",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
    gradient_clip_val=1.0,
    default_root_dir=sys.argv[1],
)
trainer.fit(Digits(), loader(TRAIN), loader(HELD_OUT))
print(float(trainer.callback_metrics["train_loss"]))
