"""A pool of two processes over many small equal tasks."""

import multiprocessing


def count(low):
    return sum(1 for n in range(low, low + 20_000) if n % 7 == n % 11)


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.map(count, range(0, 2_400_000, 20_000), chunksize=5)))
        pool.close()
        pool.join()
