"""Healthy: scikit-learn pipeline with cross-validation on generated text."""
import random

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

TOPICS = {"ships": ["hull", "anchor", "sail", "port", "deck"],
          "ovens": ["bread", "flour", "heat", "crust", "tray"],
          "hills": ["ridge", "slope", "trail", "summit", "cairn"]}


def documents(count=5000, seed=0):
    rnd = random.Random(seed)
    common = [f"w{i}" for i in range(3000)]
    texts, labels = [], []
    for _ in range(count):
        topic = rnd.choice(sorted(TOPICS))
        words = rnd.choices(common, k=60) + rnd.choices(TOPICS[topic], k=3)
        rnd.shuffle(words)
        texts.append(" ".join(words))
        labels.append(topic)
    return texts, labels


def main():
    texts, labels = documents()
    pipe = make_pipeline(TfidfVectorizer(ngram_range=(1, 1), min_df=2),
                         SGDClassifier(max_iter=20, random_state=0))
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    score = cross_val_score(pipe, texts, labels, cv=folds)
    print("accuracy %.3f +- %.3f" % (score.mean(), score.std()))


if __name__ == "__main__":
    main()
