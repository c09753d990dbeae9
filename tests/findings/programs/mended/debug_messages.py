"""Fit a mixture of linear experts by EM; diagnostics via the logging module."""
import logging

import numpy as np

log = logging.getLogger("experts")


def simulate(n, d, k, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    w = rng.standard_normal((k, d)) * 2
    z = rng.integers(0, k, n)
    return x, (x * w[z]).sum(1) + 0.2 * rng.standard_normal(n)


class Experts:
    def __init__(self, k, d, seed=0):
        rng = np.random.default_rng(seed)
        self.w = rng.standard_normal((k, d))
        self.prior = np.full(k, 1.0 / k)
        self.var = 1.0

    def responsibilities(self, x, y):
        err = y[:, None] - x @ self.w.T
        logit = np.log(self.prior) - 0.5 * err ** 2 / self.var
        logit -= logit.max(1, keepdims=True)
        r = np.exp(logit)
        return r / r.sum(1, keepdims=True), err

    def m_step(self, x, y, r, err):
        for k in range(len(self.w)):
            xr = x * r[:, k:k + 1]
            self.w[k] = np.linalg.solve(xr.T @ x + 1e-6 * np.eye(x.shape[1]), xr.T @ y)
        self.prior = r.mean(0)
        self.var = max(float((r * err ** 2).sum() / len(y)), 1e-3)

    def fit(self, x, y, rounds):
        for i in range(rounds):
            r, err = self.responsibilities(x, y)
            if log.isEnabledFor(logging.DEBUG):
                log.debug(f"round {i}: responsibilities {r[:1500].tolist()!r} errors {err[:1500].tolist()!r}")
                log.debug(f"weights {np.array2string(self.w, threshold=10**6)}")
            self.m_step(x, y, r, err)
            if i % 20 == 0:
                log.info("round %d var %.4f", i, self.var)


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    x, y = simulate(4000, 20, 6, seed=1)
    model = Experts(6, 20)
    model.fit(x, y, rounds=70)
    log.info("priors %s", np.round(model.prior, 3))


if __name__ == "__main__":
    main()
