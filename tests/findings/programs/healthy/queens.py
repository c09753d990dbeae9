"""Queens on a board: recursion in pure Python, with nothing to vectorise."""


def place(row, columns, rising, falling, size):
    if row == size:
        return 1
    found = 0
    for column in range(size):
        if not (
            columns >> column & 1
            or rising >> (row + column) & 1
            or falling >> (row - column + size) & 1
        ):
            found += place(
                row + 1,
                columns | 1 << column,
                rising | 1 << (row + column),
                falling | 1 << (row - column + size),
                size,
            )
    return found


print(place(0, 0, 0, 0, 8))
