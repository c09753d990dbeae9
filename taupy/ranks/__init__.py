"""The ranks of a job: which one the others waited for, and why it was late (docs/ranks.md)."""
