"""Weekly margin tables by store, article and channel."""
import pandas as pd


def add_money(sales):
    sales = sales.assign(
        revenue=(sales["price"] * sales["units"]).round(2),
        spend=(sales["cost"] * sales["units"]).round(2),
    )
    sales["margin"] = sales["revenue"] - sales["spend"]
    return sales


def week_table(week_sales):
    cells = week_sales.groupby(["store", "sku", "channel"], observed=False).agg(
        lines=("units", "size"),
        units=("units", "sum"),
        revenue=("revenue", "sum"),
        margin=("margin", "sum"),
        low=("price", "min"),
        high=("price", "max"),
    )
    cells = cells[cells["lines"] > 0].reset_index()
    cells["rate"] = cells["margin"] / cells["revenue"]
    return cells


def losing_cells(cells, floor=0.02):
    bad = cells[(cells["rate"] < floor) & (cells["lines"] >= 2)]
    return bad.sort_values(["margin", "store", "sku"], kind="stable")


def region_summary(cells, regions):
    joined = cells.merge(regions, on="store", how="left")
    out = joined.groupby("region", observed=True)[["units", "revenue", "margin"]].sum()
    out["rate"] = out["margin"] / out["revenue"]
    return out


def best_movers(previous, current, top=5):
    if previous is None:
        return []
    keys = ["store", "sku"]
    a = previous.groupby(keys, observed=True)["margin"].sum()
    b = current.groupby(keys, observed=True)["margin"].sum()
    both = pd.concat([a.rename("was"), b.rename("now")], axis=1, join="inner").reset_index()
    both["gain"] = (both["now"] - both["was"]).round(2)
    both = both.sort_values(["gain", "store", "sku"], ascending=[False, True, True])
    return [(r.store, r.sku, r.gain) for r in both.head(top).itertuples()]
