"""Transfer learning for surface defects: a new head on a frozen backbone."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from images import KINDS, make_images
from network import load_backbone, make_head

EPOCHS = 10
BATCH = 64


@torch.no_grad()
def extract(backbone, image_set):
    parts = [
        (backbone(images), labels)
        for images, labels in DataLoader(image_set, batch_size=256)
    ]
    return TensorDataset(*(torch.cat(column) for column in zip(*parts)))


def train_head(backbone, head, train_set):
    loader = DataLoader(
        extract(backbone, train_set), batch_size=BATCH, shuffle=True,
        generator=torch.Generator().manual_seed(3),
    )
    optimiser = torch.optim.Adam(head.parameters(), lr=3e-3)
    loss_fn = nn.CrossEntropyLoss()
    head.train()
    for _ in range(EPOCHS):
        running = 0.0
        for features, labels in loader:
            loss = loss_fn(head(features), labels)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            running += loss.item() * len(labels)
    return running / len(train_set)


@torch.no_grad()
def evaluate(backbone, head, test_set):
    head.eval()
    correct = 0
    for images, labels in DataLoader(test_set, batch_size=256):
        correct += (head(backbone(images)).argmax(1) == labels).sum().item()
    return correct / len(test_set)


def main():
    torch.set_num_threads(1)
    train_set = make_images(1500, seed=1)
    test_set = make_images(400, seed=2)
    backbone = load_backbone()
    head = make_head(backbone.features, len(KINDS))
    loss = train_head(backbone, head, train_set)
    accuracy = evaluate(backbone, head, test_set)
    print(f"kinds={len(KINDS)} train_loss={loss:.2f} test_accuracy={accuracy:.2f}")


if __name__ == "__main__":
    main()
