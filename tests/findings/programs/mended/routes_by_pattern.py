"""Requests are routed by patterns, more than re remembers, in the order in which they were added."""

import re


class Router:
    def __init__(self):
        self.routes = []

    def add(self, path, number):
        self.routes.append((re.compile(path.replace("{id}", r"(\d+)") + "$"), number))

    def find(self, path):
        for pattern, number in self.routes:
            if found := pattern.match(path):
                return number + int(found[1])


router = Router()
for number in range(600):
    router.add(f"/kind{number}/{{id}}", number)
print(sum(router.find(f"/kind{585 + number}/{number}") for number in range(15)))
