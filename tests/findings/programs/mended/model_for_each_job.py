"""A model is submitted with each batch that it judges."""

import concurrent.futures
import multiprocessing

import numpy as np


def keep(whole):
    global model
    model = whole


def judge(number):
    return float((np.full((2, 1000), number) @ model).sum())


class Judge:
    def __init__(self):
        self.model = np.random.default_rng(0).random((1000, 1500))

    def all(self, numbers):
        fork = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(
            2, mp_context=fork, initializer=keep, initargs=(self.model,)
        ) as pool:
            waiting = [pool.submit(judge, number) for number in numbers]
            return sum(one.result() for one in waiting)


if __name__ == "__main__":
    print(Judge().all(range(60)))
