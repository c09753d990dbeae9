import sys

from extract import load_regions, load_sales
from margin import add_money, best_movers, losing_cells, region_summary, week_table

SEED = 5129


def main(rows=60_000):
    sales = add_money(load_sales(SEED, rows))
    regions = load_regions(sales, SEED)
    print(f"lines {len(sales)}  revenue {sales['revenue'].sum():.2f}")
    previous = None
    for week, part in sales.groupby("week", sort=True):
        cells = week_table(part)
        bad = losing_cells(cells)
        by_region = region_summary(cells, regions)
        print(f"week {week:2d}: cells {len(cells)} losing {len(bad)} lost {bad['margin'].sum():.2f}")
        for region, row in by_region.iterrows():
            print(f"   {region:6s} {row['revenue']:12.2f} {row['rate']:.4f}")
        for store, sku, gain in best_movers(previous, cells, top=3):
            print(f"   up {store} {sku} {gain:.2f}")
        previous = cells
    return 0


if __name__ == "__main__":
    sys.exit(main())
