"""TAU's file formats: text, packed, XML, SQLite."""
