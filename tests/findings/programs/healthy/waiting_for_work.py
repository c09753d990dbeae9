"""Workers that are idle because there is little to do: nobody waits for them."""

import queue
import threading

import numpy as np

jobs = queue.Queue()
results = []


def worker():
    while (job := jobs.get()) is not None:
        results.append(job + 1)


workers = [threading.Thread(target=worker, daemon=True) for _ in range(3)]
for one in workers:
    one.start()
random = np.random.default_rng(7)
matrix = random.normal(size=(500, 500)) / 25
state = random.normal(size=(500, 500))
for number in range(40):
    state = matrix @ state
    if number % 10 == 0:
        jobs.put(number)
for one in workers:
    jobs.put(None)
for one in workers:
    one.join()
print(sorted(results), float(abs(state).mean()))
