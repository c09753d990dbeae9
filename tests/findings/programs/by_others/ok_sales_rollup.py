"""Roll up a year of shop receipts by product, week and region and compare with plan."""
import numpy as np
import pandas as pd


def make_receipts(rows, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "time": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 86400, rows), unit="s"),
        "shop": rng.integers(0, 120, rows).astype(np.int16),
        "product": rng.integers(0, 800, rows).astype(np.int16),
        "units": rng.poisson(2.0, rows) + 1,
    })


def make_shops(seed):
    rng = np.random.default_rng(seed)
    regions = pd.Categorical(rng.choice(["north", "south", "east", "west"], 120))
    return pd.DataFrame({"shop": np.arange(120, dtype=np.int16), "region": regions})


def make_prices(seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"product": np.arange(800, dtype=np.int16), "price": rng.gamma(3.0, 4.0, 800)})


def enrich(receipts, shops, prices):
    table = receipts.merge(shops, on="shop", validate="m:1").merge(prices, on="product", validate="m:1")
    table["value"] = table["units"] * table["price"]
    table["week"] = (table["time"].dt.day_of_year - 1) // 7
    return table


def weekly_sales(table):
    weekly = table.groupby(["region", "week"], observed=True)["value"].sum().unstack("week")
    return weekly.T.rolling(4, min_periods=1).mean().T


def top_products(table, count):
    totals = table.groupby("product").agg(value=("value", "sum"), units=("units", "sum"),
                                          shops=("shop", "nunique"))
    return totals.nlargest(count, "value")


def basket_spread(table):
    daily = table.groupby(["shop", table["time"].dt.floor("D")])["value"].sum()
    return daily.groupby(level=0).std()


def main():
    table = enrich(make_receipts(2_500_000, seed=3), make_shops(4), make_prices(5))
    weekly = weekly_sales(table)
    top = top_products(table, 50)
    print(f"weekly {weekly.to_numpy().sum():.2f} top {top['value'].sum():.2f} "
          f"shops {top['shops'].mean():.1f} spread {basket_spread(table).mean():.3f}")


if __name__ == "__main__":
    main()
