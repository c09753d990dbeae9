"""A small network trained for some steps on a GPU: a CNN with mixed precision, then an LSTM.

With `--kineto FILE` it runs under torch.profiler instead of taupy, whose trace FILE is. Both run
the same work: the warm-up is outside of neither.
"""

import argparse

import needs

torch = needs.torch()
nn = torch.nn


def cnn_step(model, optimizer, x, y) -> None:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def lstm_step(model, x) -> None:
    out, _ = model(x)
    out.sum().backward()


def train() -> None:
    torch.manual_seed(0)
    warm = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    for _ in range(500):  # an idle GPU's clocks rise; two runs are compared by their times
        warm @ warm
    torch.backends.cudnn.benchmark = False
    cnn = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 13 * 13, 10)
    ).cuda()
    optimizer = torch.optim.SGD(cnn.parameters(), lr=0.01)
    x, y = torch.randn(64, 1, 28, 28).cuda(), torch.randint(0, 10, (64,)).cuda()
    for _ in range(20):
        cnn_step(cnn, optimizer, x, y)
    lstm, sequence = nn.LSTM(32, 64).cuda(), torch.randn(16, 8, 32).cuda()
    for _ in range(5):
        lstm_step(lstm, sequence)
    graph, static = torch.cuda.CUDAGraph(), torch.ones(1024, device="cuda")
    with torch.cuda.graph(graph):
        result = static * 2 + 1
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    assert result[0].item() == 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kineto")
    asked = parser.parse_args()
    if not asked.kineto:
        train()
        return
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA, activity.CPU]) as measured:
        train()
    measured.export_chrome_trace(asked.kineto)


if __name__ == "__main__":
    main()
