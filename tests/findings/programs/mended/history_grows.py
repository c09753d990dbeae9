"""Each step looks at all steps before."""

import taupy


def step(smooth, value):
    return value + 0.99 * smooth


smooth = 0.0
for number in range(1_500):
    with taupy.phase("step"):
        smooth = step(smooth, number % 17)
print(smooth)
