"""Implicit time stepping of heat flow on a plate with a moving source."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.linalg import solve


class Plate:
    def __init__(self, side, conductivity):
        self.side = side
        h = 1.0 / (side - 1)
        self.points = np.linspace(0, 1, side)
        self.operator = self._laplacian(side) * (conductivity / h ** 2)

    @staticmethod
    def _laplacian(side):
        line = np.diag(-2.0 * np.ones(side)) + np.diag(np.ones(side - 1), 1) + np.diag(np.ones(side - 1), -1)
        eye = np.eye(side)
        return np.kron(line, eye) + np.kron(eye, line)


class Source:
    def __init__(self, plate, power):
        self.gx, self.gy = np.meshgrid(plate.points, plate.points, indexing="ij")
        self.power = power

    def at(self, time):
        cx, cy = 0.5 + 0.3 * np.cos(time), 0.5 + 0.3 * np.sin(time)
        bump = np.exp(-((self.gx - cx) ** 2 + (self.gy - cy) ** 2) / 0.01)
        return (self.power * bump).ravel()


class ImplicitStepper:
    """Backward Euler: (I - dt A) u_next = u + dt f."""

    def __init__(self, plate, dt):
        self.dt = dt
        self.matrix = np.eye(plate.side ** 2) - dt * plate.operator

    def advance(self, state, forcing):
        rhs = state + self.dt * forcing
        return solve(self.matrix, rhs)


class Recorder:
    def __init__(self, plate):
        self.modes = np.array([np.outer(np.sin(np.pi * a * plate.points), np.sin(np.pi * b * plate.points)).ravel()
                               for a in range(1, 29) for b in range(1, 29)])
        self.rows = []

    def note(self, time, state):
        spectrum = self.modes @ state
        self.rows.append((time, state.max(), state.mean(), np.abs(spectrum).sum()))


def simulate(side, steps, dt):
    plate = Plate(side, conductivity=0.02)
    source = Source(plate, power=5.0)
    stepper = ImplicitStepper(plate, dt)
    recorder = Recorder(plate)
    state = np.zeros(side ** 2)
    for k in range(steps):
        state = stepper.advance(state, source.at(k * dt))
        recorder.note(k * dt, state)
    return np.array(recorder.rows)


def main():
    rows = simulate(side=28, steps=90, dt=0.02)
    peak = rows[rows[:, 1].argmax()]
    print(f"peak {peak[1]:.6f} at {peak[0]:.2f} mean {rows[-1, 2]:.6f} spectrum {rows[:, 3].sum():.3f}")


if __name__ == "__main__":
    main()
