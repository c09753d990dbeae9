"""Comparisons and statistics on plain data, without SQL or printing."""
