"""A pipeline of scikit-learn: fitted five times, then asked for predictions."""

import numpy
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

numbers = numpy.random.default_rng(1)
table, classes = numbers.random((200, 8)), numbers.integers(2, size=200)
columns = ColumnTransformer(
    [("low", StandardScaler(), [0, 1, 2, 3]), ("high", MinMaxScaler(), [4, 5, 6, 7])]
)
pipeline = Pipeline([("columns", columns), ("pca", PCA(4)), ("classifier", LogisticRegression())])
for _ in range(5):
    pipeline.fit(table, classes)
for _ in range(3):
    pipeline.predict(table)
