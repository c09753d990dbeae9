"""The trial database: one SQLite file with all measurements. The only package with SQL."""
