"""Count the solutions of the queens puzzle with a pool of processes.

    python processes.py --queens 9 --processes 3 --start-method spawn

Each task fixes the queen of the first row; eight queens have 92 solutions.
"""

from __future__ import annotations

import argparse
import multiprocessing

KNOWN = {4: 2, 5: 10, 6: 4, 7: 40, 8: 92, 9: 352, 10: 724, 11: 2680}


def solutions(size: int, columns: tuple[int, ...]) -> int:
    """The number of ways to complete a board with queens in these columns of its first rows."""
    if len(columns) == size:
        return 1
    return sum(
        [solutions(size, (*columns, column)) for column in range(size) if safe(columns, column)]
    )


def safe(columns: tuple[int, ...], column: int) -> bool:
    """Whether no queen above attacks this column of the next row."""
    for distance, other in enumerate(reversed(columns), start=1):
        if column == other or abs(column - other) == distance:
            return False
    return True


def first_row(task: tuple[int, int]) -> int:
    size, column = task
    return solutions(size, (column,))


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the solutions of the queens puzzle.")
    parser.add_argument("--queens", type=int, default=8, choices=KNOWN)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--start-method", default="spawn", choices=multiprocessing.get_all_start_methods()
    )
    arguments = parser.parse_args()

    tasks = [(arguments.queens, column) for column in range(arguments.queens)]
    context = multiprocessing.get_context(arguments.start_method)
    with context.Pool(arguments.processes) as pool:
        counts = pool.map(first_row, tasks, chunksize=1)
        pool.close()
        pool.join()
    print("by column of the first queen:", *counts)
    right = "right" if sum(counts) == KNOWN[arguments.queens] else "WRONG"
    print(f"{arguments.queens} queens: {sum(counts)} solutions, {right}")


if __name__ == "__main__":
    main()
