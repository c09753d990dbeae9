import csv
import difflib
import io

from feed import catalogue, delivery_notes
from store import PartStore

BOX = 12


def suggestions(store, cache, sku):
    family = sku.strip()[:2].upper()
    if family not in cache:
        cache[family] = store.family_skus(family)
    return difflib.get_close_matches(sku.upper(), cache[family], n=2, cutoff=0.85)


def match_note(store, cache, doc, text):
    lines, unknown = [], []
    for row in csv.DictReader(io.StringIO(text), delimiter=";"):
        sku = row["article"].strip()
        part = store.find(sku)
        if part is None:
            unknown.append((sku, suggestions(store, cache, sku)))
            continue
        qty = int(row["qty"]) * (BOX if row["unit"] == "box" else 1)
        lines.append((part["id"], qty))
    store.book(doc, lines)
    return len(lines), unknown


def main():
    parts = list(catalogue(31, 16_000))
    store = PartStore()
    store.load_catalogue(parts)
    skus = [p[0] for p in parts]
    cache, matched, unknown = {}, 0, []
    for doc, text in delivery_notes(skus, 32, 190):
        n, bad = match_note(store, cache, doc, text)
        matched += n
        unknown += bad
    print(f"matched {matched} unknown {len(unknown)}")
    for sku, near in unknown[:12]:
        print(f"  {sku:14s} -> {', '.join(near) or '-'}")
    for r in store.family_totals()[:10]:
        print(f"{r['family']} docs {r['docs']:4d} qty {r['qty']:6d} value {r['value'] / 100:14.2f}")


if __name__ == "__main__":
    main()
