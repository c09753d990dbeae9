"""A report to which a table is added for each shop."""

import pandas as pd


class Report:
    def __init__(self):
        self.table = pd.DataFrame()

    def add(self, shop):
        rows = pd.DataFrame({"shop": [shop] * 400, "sold": range(shop, shop + 400)})
        self.table = pd.concat([self.table, rows])

    def total(self):
        return self.table["sold"].sum(), len(self.table)


report = Report()
for shop in range(500):
    report.add(shop)
print(*report.total())
