"""Summarise a ledger per day; a small nightly job."""
import csv
import io
import random
from collections import defaultdict
from datetime import date, timedelta


def ledger(rows=150000, seed=5):
    rnd = random.Random(seed)
    start = date(2024, 1, 1)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["day", "account", "amount"])
    days = [(start + timedelta(days=d)).isoformat() for d in range(365)]
    for _ in range(rows):
        writer.writerow([rnd.choice(days), rnd.randrange(50), f"{rnd.gauss(20, 90):.2f}"])
    out.seek(0)
    return out


def totals(handle):
    result = defaultdict(float)
    for row in csv.DictReader(handle):
        result[row["day"]] += float(row["amount"])
    return dict(result)


def weekly(per_day):
    frame = defaultdict(float)
    for day, amount in per_day.items():
        year, week, _ = date.fromisoformat(day).isocalendar()
        frame[year, week] += amount
    return frame


def export_tensor(per_day, path):
    """Only used with --export, by the forecasting team."""
    import pandas as pd
    import torch

    series = pd.Series(per_day).sort_index()
    torch.save(torch.tensor(series.to_numpy()), path)


def forest(per_day):
    """Only used with --outliers."""
    import sklearn.ensemble
    import sklearn.pipeline

    model = sklearn.pipeline.make_pipeline(sklearn.ensemble.IsolationForest())
    return model.fit_predict([[v] for v in per_day.values()])


def main(argv=()):
    per_day = totals(ledger())
    weeks = weekly(per_day)
    best = max(weeks, key=weeks.get)
    print("days", len(per_day), "best week", best, round(weeks[best], 2))
    if "--outliers" in argv:
        print(forest(per_day).sum())
    if "--export" in argv:
        export_tensor(per_day, argv[-1])


if __name__ == "__main__":
    import sys
    main(sys.argv[1:])
