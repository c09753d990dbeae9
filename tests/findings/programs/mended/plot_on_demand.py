"""Totals of a ledger, which plots them only if it is asked to."""

import sys


def plot(totals):
    import matplotlib.figure

    figure = matplotlib.figure.Figure()
    figure.subplots().plot(totals)
    figure.savefig("totals.png")


totals = [sum(range(n)) for n in range(600)]
if "--plot" in sys.argv:
    plot(totals)
print(totals[-1])
