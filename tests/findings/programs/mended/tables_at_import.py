"""Uses one constant of a module that computes all its tables when it is imported."""

import big_tables

print(big_tables.NAME, "has", len(big_tables.SQUARES), "squares")
