"""Fit a boosted model for flat prices and check it by cross-validation."""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import KFold


def make_flats(count, seed):
    rng = np.random.default_rng(seed)
    area = rng.gamma(6.0, 12.0, count) + 15
    floor = rng.integers(0, 25, count)
    age = rng.integers(0, 90, count)
    distance = rng.exponential(4.0, count)
    noise = rng.normal(size=(count, 8))
    log_price = 7 + 0.8 * np.log(area) - 0.06 * distance - 0.004 * age + 0.01 * np.minimum(floor, 10)
    log_price += 0.05 * np.sin(noise[:, 0] * 2) + rng.normal(0, 0.1, count)
    return np.column_stack([area, floor, age, distance, noise]), np.exp(log_price)


def add_ratios(flats):
    area, floor, age, distance = flats[:, :4].T
    extra = np.column_stack([area / (1 + distance), age * distance, floor / (1 + age)])
    return np.hstack([flats, extra])


def build_model():
    inner = HistGradientBoostingRegressor(max_iter=140, max_leaf_nodes=24, learning_rate=0.12, random_state=0)
    return TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp)


def cross_validate(features, price, folds):
    errors = []
    for train, test in KFold(folds, shuffle=True, random_state=1).split(features):
        model = build_model().fit(features[train], price[train])
        errors.append(mean_absolute_error(price[test], model.predict(features[test])))
    return np.array(errors)


def main():
    flats, price = make_flats(8000, seed=5)
    errors = cross_validate(add_ratios(flats), price, folds=3)
    print(f"mae {errors.mean():.1f} of {price.mean():.1f}")


if __name__ == "__main__":
    main()
