"""Visits the pages of a site, each once."""
import random

random.seed(5)
PAGES = 9000
LINKS = {page: [random.randrange(PAGES) for _ in range(4)] for page in range(PAGES)}


def visit(first):
    seen = {}
    queue = [first]
    while queue:
        page = queue.pop()
        if page in seen:
            continue
        seen[page] = True
        queue.extend(LINKS[page])
    return list(seen)


print(len(visit(0)))
