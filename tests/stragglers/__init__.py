"""Of two ranks one is slow, for each of twenty reasons: is the rank named, and the reason?"""
