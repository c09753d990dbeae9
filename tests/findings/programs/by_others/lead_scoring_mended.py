"""Train a lead-scoring model and score incoming leads for the sales queue."""
import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def make_leads(count, seed):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(count, 8))
    region = rng.integers(0, 6, (count, 1)).astype(float)
    source = rng.integers(0, 4, (count, 1)).astype(float)
    leads = np.hstack([numeric, region, source])
    signal = numeric[:, 0] + numeric[:, 1] * numeric[:, 2] + 0.5 * (region[:, 0] == 2) - 0.4 * source[:, 0]
    won = (signal + rng.normal(0, 0.7, count) > 0).astype(int)
    return leads, won


def build_pipeline():
    prepare = ColumnTransformer([
        ("num", StandardScaler(), list(range(8))),
        ("cat", OneHotEncoder(handle_unknown="ignore"), [8, 9]),
    ])
    forest = RandomForestClassifier(n_estimators=40, max_depth=9, random_state=0)
    return Pipeline([("prepare", prepare), ("forest", forest)])


class LeadScorer:
    def __init__(self, pipeline, threshold):
        self.pipeline = pipeline
        self.threshold = threshold

    def fit(self, leads, won):
        self.pipeline.fit(leads, won)
        return self

    def score(self, leads):
        return self.pipeline.predict_proba(leads)[:, 1]


class SalesQueue:
    def __init__(self, scorer, capacity):
        self.scorer = scorer
        self.capacity = capacity

    def score_all(self, leads):
        return self.scorer.score(leads)

    def build(self, leads):
        scores = self.score_all(leads)
        order = np.argsort(-scores, kind="stable")
        hot = [int(k) for k in order if scores[k] >= self.scorer.threshold]
        return hot[: self.capacity], scores


def lift(scores, won, share):
    count = int(len(scores) * share)
    best = np.argsort(-scores, kind="stable")[:count]
    return won[best].mean() / won.mean()


def main():
    leads, won = make_leads(6000, seed=71)
    scorer = LeadScorer(build_pipeline(), threshold=0.6).fit(leads, won)
    incoming, outcome = make_leads(230, seed=72)
    queue, scores = SalesQueue(scorer, capacity=200).build(incoming)
    print(f"queue {len(queue)} auc {roc_auc_score(outcome, scores):.5f} "
          f"lift {lift(scores, outcome, 0.2):.4f} sum {scores.sum():.4f}")


if __name__ == "__main__":
    main()
