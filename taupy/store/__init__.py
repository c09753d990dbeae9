"""A team's store: a catalogue in PostgreSQL, and Parquet files beside it (docs/store.md)."""
