"""A simulation that logs every particle at every step."""

import logging
import tempfile

import numpy as np

STEPS, PARTICLES = 60, 400


def step(places, speeds, log, number):
    speeds -= 0.01 * places
    places += 0.01 * speeds
    for n in range(PARTICLES):
        log.debug("step %d: particle %d at %.6f with speed %.6f", number, n, places[n], speeds[n])


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        logging.basicConfig(
            filename=file.name,
            level=logging.INFO,
            format="%(asctime)s %(name)s %(levelname)s %(message)s",
        )
        log = logging.getLogger("simulation")
        random = np.random.default_rng(7)
        places, speeds = random.normal(size=(2, PARTICLES))
        for number in range(STEPS):
            step(places, speeds, log, number)
        print(places.std())


main()
