"""A fit that logs once in a hundred steps and saves once, at the end."""

import logging
import os
import tempfile

import numpy as np

with tempfile.TemporaryDirectory() as folder:
    logging.basicConfig(filename=os.path.join(folder, "fit.log"), level=logging.INFO)
    random = np.random.default_rng(6)
    matrix = random.normal(size=(400, 400))
    matrix = matrix @ matrix.T / 400
    vector = random.normal(size=400)
    for number in range(4_000):
        vector = matrix @ vector
        vector /= np.linalg.norm(vector)
        if number % 100 == 0:
            logging.info("step %d: %f", number, vector @ matrix @ vector)
    np.savez(os.path.join(folder, "vector.npz"), vector=vector)
    logging.shutdown()
print(vector @ matrix @ vector)
