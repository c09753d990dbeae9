"""Heat in a plate: every cell of the grid by itself, with plotting imported and not used."""

import matplotlib.colors
import matplotlib.figure
import numpy as np


def relax(grid):
    new = grid.copy()
    for row in range(1, grid.shape[0] - 1):
        for column in range(1, grid.shape[1] - 1):
            new[row, column] = 0.25 * (
                grid[row - 1, column]
                + grid[row + 1, column]
                + grid[row, column - 1]
                + grid[row, column + 1]
            )
    return new


plate = np.zeros((130, 130))
plate[0] = 100.0
for _ in range(40):
    plate = relax(plate)
normal = matplotlib.colors.Normalize(0, 100)
figure = matplotlib.figure.Figure()
print(normal(plate[1, 65]), figure.get_figwidth())
