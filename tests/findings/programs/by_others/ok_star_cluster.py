"""Integrate a small star cluster with a leapfrog scheme and follow its energy."""
import numpy as np

SOFT = 0.05


class Cluster:
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.mass = np.full(count, 1.0 / count)
        self.position = rng.normal(0, 1.0, (count, 3))
        self.velocity = rng.normal(0, 0.4, (count, 3))
        self.position -= self.mass @ self.position
        self.velocity -= self.mass @ self.velocity

    def inverse_distances(self):
        x, y, z = self.position.T
        squared = (x[:, None] - x) ** 2
        squared += (y[:, None] - y) ** 2
        squared += (z[:, None] - z) ** 2
        squared += SOFT ** 2
        return 1.0 / np.sqrt(squared)

    def acceleration(self):
        inverse = self.inverse_distances()
        weight = inverse * inverse * inverse * self.mass
        return weight @ self.position - weight.sum(axis=1)[:, None] * self.position

    def energy(self):
        kinetic = 0.5 * self.mass @ (self.velocity ** 2).sum(axis=1)
        inverse = self.inverse_distances()
        np.fill_diagonal(inverse, 0.0)
        return kinetic - 0.5 * self.mass @ inverse @ self.mass


def leapfrog(cluster, steps, dt):
    force = cluster.acceleration()
    for _ in range(steps):
        cluster.velocity += 0.5 * dt * force
        cluster.position += dt * cluster.velocity
        force = cluster.acceleration()
        cluster.velocity += 0.5 * dt * force


def half_mass_radius(cluster):
    center = cluster.mass @ cluster.position
    return np.median(np.linalg.norm(cluster.position - center, axis=1))


def main():
    cluster = Cluster(500, seed=14)
    before = cluster.energy()
    leapfrog(cluster, steps=150, dt=0.005)
    after = cluster.energy()
    print(f"energy {before:.5f} {after:.5f} radius {half_mass_radius(cluster):.4f}")


if __name__ == "__main__":
    main()
