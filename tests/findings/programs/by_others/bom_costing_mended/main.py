"""Prices the finished products and lists the slowest and dearest ones."""
import random

from catalogue import build_catalogue
from costing import Costing

TRIALS = 300_000


def quote_all(costing, products):
    quotes = []
    for code in products:
        cost, lead = costing.roll_up(code)
        quotes.append((code, cost, lead))
    return quotes


def expected_revenue(quotes, seed=8):
    """Monte-Carlo estimate of a month's revenue with uncertain demand."""
    rng = random.Random(seed)
    prices = [cost * 1.35 for _, cost, _ in quotes]
    total = 0.0
    for _ in range(TRIALS):
        total += prices[rng.randrange(len(prices))] * rng.random()
    return total / TRIALS


def main():
    items, products = build_catalogue()
    quotes = quote_all(Costing(items), products)
    dearest = max(quotes, key=lambda quote: quote[1])
    slowest = max(quotes, key=lambda quote: (quote[2], quote[0]))
    print(f"items={len(items)} products={len(products)}")
    print(f"dearest={dearest[0]} at {dearest[1]:.2f}")
    print(f"slowest={slowest[0]} with {slowest[2]} days")
    print(f"expected={expected_revenue(quotes):.2f}")


if __name__ == "__main__":
    main()
