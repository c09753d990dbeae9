"""Heat in a plate: every cell of the grid by itself, with plotting imported and not used."""

import matplotlib.colors
import matplotlib.figure
import numpy as np


def relax(grid):
    new = grid.copy()
    new[1:-1, 1:-1] = 0.25 * (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])
    return new


plate = np.zeros((130, 130))
plate[0] = 100.0
for _ in range(40):
    plate = relax(plate)
normal = matplotlib.colors.Normalize(0, 100)
figure = matplotlib.figure.Figure()
print(normal(plate[1, 65]), figure.get_figwidth())
