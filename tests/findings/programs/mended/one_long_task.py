"""A pool of processes whose last task is as long as all others together."""

import multiprocessing


def simulate(steps):
    state = 12345
    for _ in range(steps):
        state = (1103515245 * state + 12345) % 2**31
    return state


def main():
    tasks = [5_000_000] + [60_000] * 20
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.imap(simulate, tasks)) % 1000)
        pool.close()
        pool.join()


if __name__ == "__main__":
    main()
