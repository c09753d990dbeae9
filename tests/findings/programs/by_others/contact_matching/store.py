"""Contact store on SQLite."""
import sqlite3

SCHEMA = """
CREATE TABLE contact (
    id INTEGER PRIMARY KEY,
    email TEXT NOT NULL,
    full_name TEXT NOT NULL,
    company TEXT,
    touches INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX contact_email ON contact (email);
"""


class ContactStore:
    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.db.executescript(SCHEMA)

    def load(self, contacts):
        with self.db:
            self.db.executemany(
                "INSERT INTO contact (email, full_name, company) VALUES (?, ?, ?)", contacts
            )

    def find(self, email):
        return self.db.execute(
            "SELECT id, full_name, company FROM contact WHERE lower(email) = ? ORDER BY id",
            (email.strip().lower(),),
        ).fetchone()

    def touch(self, contact_id):
        self.db.execute("UPDATE contact SET touches = touches + 1 WHERE id = ?", (contact_id,))

    def add(self, email, full_name, company):
        self.db.execute(
            "INSERT INTO contact (email, full_name, company) VALUES (?, ?, ?)",
            (email.strip(), full_name, company),
        )

    def totals(self):
        return self.db.execute("SELECT count(*), sum(touches), max(touches) FROM contact").fetchone()

    def close(self):
        self.db.commit()
        self.db.close()
