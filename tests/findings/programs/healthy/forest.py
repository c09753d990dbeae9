"""A random forest of scikit-learn, fitted and asked."""

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

inputs, labels = make_classification(n_samples=1_500, n_features=20, random_state=0)
forest = RandomForestClassifier(n_estimators=40, random_state=0).fit(inputs[:1_000], labels[:1_000])
print(forest.score(inputs[1_000:], labels[1_000:]))
