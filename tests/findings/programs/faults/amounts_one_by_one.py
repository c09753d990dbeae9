"""Amounts of an export that may be empty, and how long each took, each text converted by itself."""

import pandas as pd


class Export:
    def __init__(self, rows):
        self.amounts = pd.Series([f"{n % 900}.{n % 10}" if n % 7 else "" for n in range(rows // 3)])
        self.times = pd.Series([f"{n % 50} min" for n in range(rows)])

    def number(self, text):
        return pd.to_numeric(text, errors="coerce")

    def time(self, text):
        return pd.to_timedelta(text)

    def total(self):
        return self.amounts.map(self.number).sum(), self.times.map(self.time).sum()


amount, time = Export(30_000).total()
print(round(amount, 3), time.total_seconds())
