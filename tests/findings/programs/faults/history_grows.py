"""Each step looks at all steps before."""

import taupy


def step(history, value):
    history.insert(0, value)
    return sum(x * 0.99**age for age, x in enumerate(history))


history, smooth = [], 0.0
for number in range(1_500):
    with taupy.phase("step"):
        smooth = step(history, number % 17)
print(smooth)
