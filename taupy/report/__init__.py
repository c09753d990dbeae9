"""The report on a trial: its findings, health and phases in one answer."""
