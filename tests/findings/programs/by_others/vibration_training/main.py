"""Trains the bearing-fault classifier and reports hold-out accuracy."""
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from model import accuracy, build_model, train_epoch
from signals import CLASSES, VibrationWindows

EPOCHS = 3
BATCH = 128


def make_loader(dataset):
    sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(5))
    return DataLoader(
        dataset,
        batch_size=BATCH,
        sampler=sampler,
        num_workers=2,
        multiprocessing_context="spawn",
        prefetch_factor=4,
    )


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train_set = VibrationWindows(4000, seed=1)
    held_out = VibrationWindows(800, seed=2)
    pairs = [held_out[i] for i in range(len(held_out))]
    test_x = torch.stack([features for features, _ in pairs])
    test_y = torch.tensor([label for _, label in pairs])

    model = build_model(test_x.shape[1], len(CLASSES))
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss_fn = nn.CrossEntropyLoss()
    loader = make_loader(train_set)

    for epoch in range(EPOCHS):
        loss = train_epoch(model, loader, optimiser, loss_fn)
        print(f"epoch {epoch} loss {loss:.3f} acc {accuracy(model, test_x, test_y):.3f}")


if __name__ == "__main__":
    main()
