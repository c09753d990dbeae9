"""Track many targets with a Kalman filter; the gate adapts to past residuals."""
import numpy as np
from scipy import stats


class Tracker:
    def __init__(self, targets):
        self.state = np.zeros((targets, 4))
        self.cov = np.tile(np.eye(4), (targets, 1, 1))
        self.f = np.eye(4) + np.eye(4, k=2)
        self.h = np.eye(2, 4)
        self.residuals = np.zeros((0, 2))
        self.gate = 3.0

    def predict(self):
        self.state = self.state @ self.f.T
        self.cov = self.f @ self.cov @ self.f.T + 0.01 * np.eye(4)

    def update(self, seen):
        innov = seen - self.state @ self.h.T
        s = self.h @ self.cov @ self.h.T + 0.1 * np.eye(2)
        gain = self.cov @ self.h.T @ np.linalg.inv(s)
        ok = np.abs(innov).max(axis=1, keepdims=True) < self.gate * 5
        self.state = self.state + ok * np.einsum("nij,nj->ni", gain, innov)
        self.cov = (np.eye(4) - gain @ self.h) @ self.cov
        self.learn(innov)

    def learn(self, innov):
        self.residuals = np.vstack([self.residuals, innov])
        spread = stats.median_abs_deviation(self.residuals, axis=0)
        self.gate = max(1.0, 1.48 * float(spread.max()))


def scene(steps, targets, seed=1):
    rng = np.random.default_rng(seed)
    velocity = rng.normal(0, 1, (targets, 2))
    where = np.zeros((targets, 2))
    for _ in range(steps):
        where = where + velocity
        yield where + rng.normal(0, 0.3, where.shape)


def main(steps=400, targets=500):
    tracker = Tracker(targets)
    for seen in scene(steps, targets):
        tracker.predict()
        tracker.update(seen)
    print("gate %.3f  mean speed %.3f" % (tracker.gate, np.abs(tracker.state[:, 2:]).mean()))


if __name__ == "__main__":
    main()
