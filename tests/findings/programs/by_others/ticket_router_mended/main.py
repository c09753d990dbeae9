"""Pick the smoothing of the ticket router and print the table for the wiki page."""
import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import ParameterGrid, StratifiedKFold, train_test_split
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import Pipeline

from tickets import make_tickets

SEED = 88
ALPHAS = np.round(np.geomspace(0.02, 5.0, 6), 4)


def build():
    return Pipeline(
        [
            ("grams", TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), min_df=2, sublinear_tf=True)),
            ("nb", ComplementNB()),
        ]
    )


def tune(texts, labels):
    folds = StratifiedKFold(n_splits=4, shuffle=True, random_state=SEED)
    grid = list(ParameterGrid({"nb__alpha": ALPHAS, "nb__norm": [False, True]}))
    labels = np.asarray(labels)
    scores = np.zeros((len(grid), folds.get_n_splits()))
    for f, (fit, check) in enumerate(folds.split(texts, labels)):
        grams = clone(build().named_steps["grams"])
        fit_x = grams.fit_transform([texts[i] for i in fit])
        check_x = grams.transform([texts[i] for i in check])
        for g, params in enumerate(grid):
            nb = ComplementNB(alpha=params["nb__alpha"], norm=params["nb__norm"]).fit(fit_x, labels[fit])
            scores[g, f] = accuracy_score(labels[check], nb.predict(check_x))
    table = [(float(p["nb__alpha"]), bool(p["nb__norm"]), float(s)) for p, s in zip(grid, scores.mean(axis=1))]
    return sorted(table, key=lambda r: (-r[2], r[0], r[1]))


def main():
    texts, labels = make_tickets(400, SEED)
    train_x, test_x, train_y, test_y = train_test_split(
        texts, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    table = tune(train_x, train_y)
    for alpha, norm, score in table:
        print(f"alpha {alpha:7.4f} norm {str(norm):5s} accuracy {score:.4f}")
    alpha, norm, _ = table[0]
    final = build().set_params(nb__alpha=alpha, nb__norm=norm).fit(train_x, train_y)
    print(f"held out accuracy {accuracy_score(test_y, final.predict(test_x)):.4f}")


if __name__ == "__main__":
    main()
