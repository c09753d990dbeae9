"""Sums of a table by a pool to which the whole table goes with each job."""

import multiprocessing

import numpy as np

def score(table, number):
    return float(table[number::97].sum())


def main():
    table = np.random.default_rng(0).random(1_500_000)
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool:
        print(sum(pool.starmap(score, [(table, number) for number in range(60)], chunksize=1)))
        pool.close()
        pool.join()


main()
