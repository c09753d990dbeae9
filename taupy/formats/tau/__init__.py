"""TAU's files: text, packed, XML, SQLite."""
