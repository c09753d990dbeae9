"""Powers of a matrix: BLAS does the work."""

import numpy as np

random = np.random.default_rng(0)
matrix = random.normal(size=(700, 700)) / 30
state = random.normal(size=(700, 700))
for _ in range(25):
    state = matrix @ state
print(float(np.abs(state).mean()))
