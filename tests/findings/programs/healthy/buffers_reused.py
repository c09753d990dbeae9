"""Large buffers, filled once and used again."""

import numpy as np

buffer = np.empty((40, 250_000))
total = 0.0
for turn in range(12):
    for row in buffer:
        row[:] = turn
        np.sqrt(row, out=row)
    total += buffer.sum()
print(total)
