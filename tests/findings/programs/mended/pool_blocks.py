"""Mandelbrot escape counts by rows, in two worker processes."""
import multiprocessing as mp
import os
from functools import partial

import numpy as np


def rows(start_stop, width, height, depth):
    start, stop = start_stop
    re = np.linspace(-2.0, 0.6, width)
    im = np.linspace(-1.3, 3.9, height)[start:stop]   # the frame reaches far above the set
    counts = np.zeros((stop - start, width), dtype=np.int32)
    for i, y in enumerate(im):
        c = re + 1j * y
        z = np.zeros_like(c)
        alive = np.arange(width)
        for _ in range(depth):
            z = z * z + c
            keep = np.abs(z) < 2.0
            counts[i, alive] += 1
            z, c, alive = z[keep], c[keep], alive[keep]
            if not len(alive):
                break
    return start, os.getpid(), counts


def split(height, parts):
    edges = np.linspace(0, height, parts + 1).astype(int)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist()))


def main(width=1000, height=1000, depth=260, procs=2):
    work = partial(rows, width=width, height=height, depth=depth)
    image = np.zeros((height, width), dtype=np.int32)
    with mp.get_context("fork").Pool(procs) as pool:
        for start, _, counts in pool.imap(work, split(height, 40)):
            image[start:start + len(counts)] = counts
    print("inside", int((image == depth).sum()), "mean %.2f" % image.mean())


if __name__ == "__main__":
    main()
