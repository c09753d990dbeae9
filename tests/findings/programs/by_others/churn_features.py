"""Build per-customer features from an order log and rank customers by churn risk."""
import numpy as np
import pandas as pd


def make_orders(customers, orders, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "customer": rng.integers(0, customers, orders),
        "day": rng.integers(0, 730, orders),
        "amount": np.round(rng.gamma(2.0, 30.0, orders), 2),
        "channel": rng.choice(["web", "shop", "phone"], orders),
    })
    return frame.sort_values(["day", "customer"], ignore_index=True)


def add_calendar(orders):
    orders = orders.copy()
    orders["week"] = orders["day"] // 7
    orders["weekend"] = orders["day"] % 7 >= 5
    return orders


def describe(rows):
    amount = rows["amount"].to_numpy()
    days = rows["day"].to_numpy()
    gaps = np.diff(days)
    return {
        "orders": len(amount),
        "spent": amount.sum(),
        "gap": gaps.mean() if len(gaps) else 730.0,
        "last": days[-1],
        "weekend": rows["weekend"].to_numpy().mean(),
    }


class CustomerTable:
    def __init__(self, orders):
        self.orders = orders
        self.ids = np.sort(orders["customer"].unique())

    def rows_of(self):
        for customer in self.ids:
            yield customer, self.orders[self.orders["customer"] == customer]

    def build(self):
        records = {}
        for customer, rows in self.rows_of():
            records[customer] = describe(rows)
        return pd.DataFrame.from_dict(records, orient="index")


def risk(features):
    silence = 730 - features["last"]
    score = silence / (features["gap"] + 1.0)
    return score.rank(pct=True) - 0.1 * features["spent"].rank(pct=True)


def channel_mix(orders):
    mix = orders.pivot_table(index="customer", columns="channel", values="amount",
                             aggfunc="sum", fill_value=0.0)
    return mix.div(mix.sum(axis=1), axis=0)


def main():
    orders = add_calendar(make_orders(1500, 240_000, seed=6))
    features = CustomerTable(orders).build()
    features["risk"] = risk(features)
    features = features.join(channel_mix(orders))
    top = features.nlargest(200, "risk")
    print(f"customers {len(features)} top spent {top['spent'].sum():.2f} "
          f"gap {features['gap'].mean():.4f} web {top['web'].mean():.4f}")


if __name__ == "__main__":
    main()
