"""Batches come from one thread, and the model waits for them."""

import queue
import random
import threading

import numpy as np

BATCHES = 8


def parse(line):
    return [float(field) for field in line.split(",")]


def load(lines, batches):
    for _ in range(BATCHES):
        batches.put(np.array([parse(line) for line in lines]))
    batches.put(None)


def train(batches):
    weights = np.zeros(40)
    while (batch := batches.get()) is not None:
        error = batch @ weights - batch[:, 0]
        weights -= 1e-4 * batch.T @ error / len(batch)
    return weights


def main():
    random.seed(6)
    lines = [",".join(f"{random.random():.6f}" for _ in range(40)) for _ in range(20_000)]
    batches = queue.Queue(maxsize=2)
    loader = threading.Thread(target=load, args=(lines, batches), name="loader")
    loader.start()
    print(train(batches)[:2])
    loader.join()


main()
