"""Rooflines: points, roofs and charts from counters and ceilings."""
