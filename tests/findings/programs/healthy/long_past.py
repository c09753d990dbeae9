"""A forecast from a long past, to which few days are added: each takes what the first one did."""

import random


class Forecast:
    def __init__(self, past):
        self.days = []
        for value in past:
            self.days.append(value)

    def add(self, value):
        self.days.append(value)

    def next(self):
        return sum(self.days) / len(self.days)


random.seed(8)
forecast = Forecast(random.random() for _ in range(400_000))
total = 0.0
for _ in range(400):
    forecast.add(random.random())
    total += forecast.next()
print(round(total, 6))
