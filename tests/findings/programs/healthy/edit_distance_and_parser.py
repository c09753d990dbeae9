"""Healthy: edit distance and a small parser; plain Python with sequential
dependencies that no single vector call would replace."""
import random
from functools import lru_cache


def words(count, seed=0):
    rnd = random.Random(seed)
    return ["".join(rnd.choices("abcdefgh", k=rnd.randint(5, 12))) for _ in range(count)]


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        diag, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            cost = diag if ca == cb else 1 + min(diag, row[j], row[j - 1])
            diag, row[j] = row[j], cost
    return row[-1]


def nearest(query, dictionary):
    return min(dictionary, key=lambda w: (distance(query, w), w))


def tokenise(text):
    return text.replace("(", " ( ").replace(")", " ) ").split()


def parse(tokens):
    stack = [[]]
    for t in tokens:
        if t == "(":
            stack.append([])
        elif t == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(t)
    return stack[0]


@lru_cache(maxsize=4096)
def depth(expr):
    level = best = 0
    for c in expr:
        level += (c == "(") - (c == ")")
        best = max(best, level)
    return best


def main():
    dictionary = words(350)
    fixes = {q: nearest(q, dictionary) for q in words(350, seed=1)}
    text = " ".join(f"(fix {q} (to {w}))" for q, w in fixes.items())
    tree = parse(tokenise(text))
    print(len(tree), depth(text), sum(distance(*p) for p in fixes.items()))


if __name__ == "__main__":
    main()
