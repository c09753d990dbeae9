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


def count(start, high, queue):
    queue.put(sum(is_prime(n) for n in range(2 * start + 1, high, 2 * WORKERS)) + (start == 0))


def main():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [
        context.Process(target=count, args=(n, 6 * LIMIT, queue))
        for n in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    print(sum(queue.get() for _ in workers))
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
