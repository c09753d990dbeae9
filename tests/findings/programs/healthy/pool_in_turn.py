"""Newton's iteration for a root of two large numbers: each step needs the one before.

The pool hands its steps to both workers in turn, so each is idle for half of the time, and so is
the pool's own thread that hands out tasks, in a wait that is not seen from Python.
"""

import multiprocessing


def step(number: int, guess: int) -> int:
    for _ in range(150):
        quotient = number // guess
    return (guess + quotient) // 2


def main() -> None:
    number = 7**9000
    guess = 1 << number.bit_length() // 2
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for _ in range(120):
            guess = pool.apply(step, (number, guess))
    print("digits", guess.bit_length())


if __name__ == "__main__":
    main()
