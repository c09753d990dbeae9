"""Days of a log, each text parsed by itself."""

import pandas as pd

texts = pd.Series([f"{n % 28 + 1:02d}/{n % 12 + 1:02d}/2024 10:{n % 60:02d}" for n in range(8_000)])


def parsed(texts):
    return pd.to_datetime(texts, format="%d/%m/%Y %H:%M")


print(parsed(texts).dt.dayofyear.sum())
