"""A server that keeps every answer."""

import functools
import time


@functools.lru_cache(maxsize=8)
def text(number):
    return bytes([number % 251]) * 4_000_000


def answer(number):
    return len(text(number))


def main():
    total = 0
    for number in range(70):
        total += answer(number)
        time.sleep(0.015)
    print(total)


main()
