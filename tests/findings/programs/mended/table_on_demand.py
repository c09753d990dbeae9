"""Totals of a ledger, which writes a table only if it is asked to."""

import sys


def table(totals):
    import pandas

    pandas.Series(totals).to_csv("totals.csv")


totals = [sum(range(n)) for n in range(600)]
if "--table" in sys.argv:
    table(totals)
print(totals[-1])
