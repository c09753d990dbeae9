"""The trial database: one SQLite file that keeps every measurement. The only room with SQL."""
