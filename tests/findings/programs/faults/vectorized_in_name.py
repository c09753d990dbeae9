"""A price for each option, by a function of one number that np.vectorize maps."""

import math

import numpy as np


def price(spot, strike=100.0, rate=0.02, volatility=0.3):
    d1 = (math.log(spot / strike) + rate + volatility * volatility / 2) / volatility
    d2 = d1 - volatility
    one = 0.5 * (1 + math.erf(d1 / math.sqrt(2)))
    two = 0.5 * (1 + math.erf(d2 / math.sqrt(2)))
    return spot * one - strike * math.exp(-rate) * two


prices = np.vectorize(price)(np.linspace(50, 150, 700_000))
print(prices.mean())
