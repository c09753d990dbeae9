import sqlite3

SCHEMA = """
CREATE TABLE part (
    id      INTEGER PRIMARY KEY,
    sku     TEXT NOT NULL,
    family  TEXT NOT NULL,
    price   INTEGER NOT NULL,
    stock   INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX part_sku ON part (sku COLLATE NOCASE);
CREATE INDEX part_family ON part (family);

CREATE TABLE movement (
    part_id  INTEGER NOT NULL REFERENCES part(id),
    doc      TEXT NOT NULL,
    qty      INTEGER NOT NULL
);
CREATE INDEX movement_part ON movement (part_id);
"""


class PartStore:
    def __init__(self, path=":memory:"):
        self.db = sqlite3.connect(path)
        self.db.row_factory = sqlite3.Row
        self.db.executescript(SCHEMA)

    def load_catalogue(self, parts):
        with self.db:
            self.db.executemany(
                "INSERT INTO part (sku, family, price, stock) VALUES (?, ?, ?, ?)", parts
            )
        self.db.execute("ANALYZE")

    def find(self, sku):
        """Suppliers type our numbers in any mix of case; we keep them as printed."""
        row = self.db.execute(
            "SELECT id, sku, family, price FROM part WHERE sku = ? COLLATE NOCASE", (sku,)
        ).fetchone()
        return row

    def family_skus(self, family):
        cur = self.db.execute("SELECT sku FROM part WHERE family = ? ORDER BY sku", (family,))
        return [r["sku"] for r in cur]

    def book(self, doc, lines):
        with self.db:
            for part_id, qty in lines:
                self.db.execute(
                    "INSERT INTO movement (part_id, doc, qty) VALUES (?, ?, ?)", (part_id, doc, qty)
                )
                self.db.execute("UPDATE part SET stock = stock + ? WHERE id = ?", (qty, part_id))

    def family_totals(self):
        return self.db.execute(
            """SELECT p.family, COUNT(DISTINCT m.doc) AS docs, SUM(m.qty) AS qty,
                      SUM(m.qty * p.price) AS value
               FROM movement m JOIN part p ON p.id = m.part_id
               GROUP BY p.family ORDER BY value DESC"""
        ).fetchall()
