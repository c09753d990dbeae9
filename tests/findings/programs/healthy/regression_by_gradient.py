"""Linear regression by gradient descent, all rows at once."""

import numpy as np


def gradient(weights, inputs, targets):
    return inputs.T @ (inputs @ weights - targets) / len(targets)


def fit(inputs, targets, steps=300, rate=0.1):
    weights = np.zeros(inputs.shape[1])
    for _ in range(steps):
        weights -= rate * gradient(weights, inputs, targets)
    return weights


random = np.random.default_rng(1)
inputs = random.normal(size=(20_000, 30))
truth = random.normal(size=30)
print(np.abs(fit(inputs, inputs @ truth + random.normal(size=20_000)) - truth).max())
