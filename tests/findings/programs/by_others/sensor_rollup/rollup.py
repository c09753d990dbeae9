"""Minute readings of a few stations: clean, roll up by hour, and look at persistence."""
import csv

import numpy as np


def read_station(handle):
    """Return (minutes, table) with one column per sensor; blanks become nan."""
    rows = []
    minutes = []
    for rec in csv.reader(handle):
        minutes.append(int(rec[0]))
        rows.append([float(cell) if cell else None for cell in rec[1:]])
    table = np.array(rows)
    table[table == None] = np.nan  # noqa: E711
    return np.array(minutes), table


def fill_gaps(table):
    """Carry the last good reading forward, column by column."""
    filled = table.copy()
    for c in range(filled.shape[1]):
        col = filled[:, c]
        good = col == col
        where = np.maximum.accumulate(np.where(good, np.arange(len(col)), 0))
        filled[:, c] = col[where]
    return filled


def hourly(table):
    hours = len(table) // 60
    blocks = table[: hours * 60].reshape(hours, 60, -1)
    return blocks.mean(axis=1), blocks.min(axis=1), blocks.max(axis=1)


def smooth(table, window=15):
    total = np.cumsum(table, axis=0)
    out = table.copy()
    out[window:] = (total[window:] - total[:-window]) / window
    return out


def persistence(table, lags):
    """Mean squared change over each lag, for each sensor."""
    result = np.empty((len(lags), table.shape[1]))
    for k, lag in enumerate(lags):
        change = table[lag:] - table[:-lag]
        result[k] = (change * change).mean(axis=0)
    return result


def cross_terms(table):
    centred = table - table.mean(axis=0)
    n = table.shape[1]
    out = np.zeros((n, n))
    for a in range(n):
        for b in range(a, n):
            out[a, b] = out[b, a] = (centred[:, a] * centred[:, b]).mean()
    spread = np.sqrt(np.diag(out))
    return out / np.outer(spread, spread)
