"""A report to which a table is added for each shop."""

import pandas as pd


class Report:
    def __init__(self):
        self.tables = []

    def add(self, shop):
        rows = pd.DataFrame({"shop": [shop] * 400, "sold": range(shop, shop + 400)})
        self.tables.append(rows)

    def total(self):
        table = pd.concat(self.tables)
        return table["sold"].sum(), len(table)


report = Report()
for shop in range(500):
    report.add(shop)
print(*report.total())
