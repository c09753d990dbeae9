"""Fit a tone classifier on log-spectrograms computed by background loader workers."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
RATE = 8000


def synth_clip(index):
    rng = np.random.default_rng(1000 + index)
    label = index % 5
    t = np.arange(RATE) / RATE
    tone = np.sin(2 * np.pi * (300 + 170 * label) * t + rng.random() * 6)
    return (tone + rng.normal(0, 0.8, RATE)).astype(np.float32), label


def log_spectrogram(signal, size=256, hop=32):
    window = torch.hann_window(size)
    spec = torch.stft(torch.from_numpy(signal), size, hop, window=window, return_complex=True)
    return torch.log1p(spec.abs())


def pool_bands(spec, bands=32):
    usable = spec[: spec.shape[0] // bands * bands]
    folded = usable.reshape(bands, -1, spec.shape[1]).mean(1)
    return torch.stack([folded.mean(1), folded.std(1), folded.amax(1)])


class Clips(Dataset):
    def __init__(self, count):
        self.count = count
        self.ready = {}

    def __len__(self):
        return self.count

    def _prepare(self, index):
        signal, label = synth_clip(index)
        features = pool_bands(log_spectrogram(signal))
        for _ in range(2):
            jitter = np.roll(signal, 37 * (index % 7 + 1))
            features = features + pool_bands(log_spectrogram(jitter))
        return features / 3, label

    def __getitem__(self, index):
        if index not in self.ready:
            self.ready[index] = self._prepare(index)
        return self.ready[index]


def limit_threads(worker_id):
    torch.set_num_threads(1)


class ToneNet(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(96, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)))


class Momentum:
    def __init__(self, parameters, rate, decay=0.9):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.velocity = [torch.zeros_like(p) for p in self.parameters]
        self.rate = rate
        self.decay = decay

    @torch.no_grad()
    def step(self, loss):
        grads = torch.autograd.grad(loss, self.parameters)
        torch._foreach_mul_(self.velocity, self.decay)
        torch._foreach_add_(self.velocity, grads)
        torch._foreach_add_(self.parameters, self.velocity, alpha=-self.rate)


def fit(net, loader, epochs):
    optimizer = Momentum(net.parameters(), rate=0.02)
    history = []
    for _ in range(epochs):
        hits = seen = 0
        for features, labels in loader:
            logits = net(features)
            loss = nn.functional.cross_entropy(logits, labels)
            optimizer.step(loss)
            hits += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
        history.append(hits / seen)
    return history


def main():
    torch.manual_seed(0)
    loader = DataLoader(Clips(128), batch_size=16, num_workers=2,
                        worker_init_fn=limit_threads)
    history = fit(ToneNet(), loader, epochs=8)
    print("accuracy", " ".join(f"{v:.3f}" for v in history))


if __name__ == "__main__":
    main()
