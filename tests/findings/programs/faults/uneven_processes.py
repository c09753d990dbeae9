"""Primes below a limit, counted by processes that take equal ranges of unequal cost."""

import multiprocessing

LIMIT = 48_000
WORKERS = 2


def is_prime(number):
    if number % 2 == 0:
        return number == 2
    divisor = 3
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 2
    return number > 1


def count(low, high, queue):
    queue.put(sum(is_prime(n) for n in range(low, high)))


def main():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    bounds = [0, LIMIT // 10, 6 * LIMIT]
    workers = [
        context.Process(target=count, args=(bounds[n], bounds[n + 1], queue))
        for n in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    print(sum(queue.get() for _ in workers))
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
