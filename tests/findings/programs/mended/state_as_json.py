"""A search that writes its whole state as JSON after every move."""

import json
import os
import random
import tempfile


def score(order, table):
    return sum(table[a][b] for a, b in zip(order, order[1:]))


def improve(order, table):
    a, b = sorted(random.sample(range(len(order)), 2))
    candidate = order[:a] + order[a:b][::-1] + order[b:]
    return min(order, candidate, key=lambda one: score(one, table))


def save(path, state):
    with open(path, "w") as file:
        json.dump(state, file)


def main():
    random.seed(9)
    count = 140
    table = [[random.random() for _ in range(count)] for _ in range(count)]
    order = list(range(count))
    with tempfile.TemporaryDirectory() as folder:
        for move in range(25):
            order = improve(order, table)
            if move == 24:
                save(os.path.join(folder, "state.json"), {"move": move, "order": order, "table": table})
    print(score(order, table))


main()
