"""Rates the day's shipment manifests in a pool of worker processes."""
from concurrent.futures import ProcessPoolExecutor

from tariff import build_tariff, make_batches, price

MANIFESTS = 36
SHIPMENTS = 4000
WORKERS = 2


_tariff = None


def install_tariff(tariff):
    global _tariff
    _tariff = tariff


def rate_manifest(manifest):
    tariff = _tariff
    total = 0.0
    worst = 0.0
    for origin, target, weight in manifest:
        cost = price(tariff[origin, target], weight)
        total += cost
        worst = max(worst, cost)
    return round(total, 2), round(worst, 2)


def rate_all(tariff, manifests):
    with ProcessPoolExecutor(
        max_workers=WORKERS, initializer=install_tariff, initargs=(tariff,)
    ) as pool:
        return list(pool.map(rate_manifest, manifests))


def main():
    tariff = build_tariff()
    manifests = make_batches(MANIFESTS, SHIPMENTS)
    rated = rate_all(tariff, manifests)
    total = sum(amount for amount, _ in rated)
    dearest = max(worst for _, worst in rated)
    print(f"manifests={len(rated)} lanes={len(tariff)}")
    print(f"total={total:.2f} dearest_shipment={dearest:.2f}")


if __name__ == "__main__":
    main()
