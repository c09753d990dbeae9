"""Points, roofs and charts: counters and ceilings become rooflines."""
