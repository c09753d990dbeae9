"""Score short documents against a weighted vocabulary in worker processes."""
import math
import multiprocessing
import random
import zlib
from collections import Counter


def make_words(count, rng):
    letters = "abcdefghijklmnoprstuvwz"
    return sorted({"".join(rng.choices(letters, k=rng.randint(4, 9))) for _ in range(count)})


def make_documents(words, count, rng):
    for number in range(count):
        picks = rng.choices(words, k=rng.randint(80, 160))
        yield number, " ".join(picks)


class Scorer:
    def __init__(self, words, rng):
        self.weights = {word: rng.random() for word in words}
        self.pairs = {}
        for left, right in zip(words, words[7:]):
            self.pairs[left] = (right, rng.random())

    def score(self, document):
        number, text = document
        tokens = text.split()
        counts = Counter(tokens)
        total = 0.0
        for token, count in counts.items():
            total += self.weights.get(token, 0.0) * math.log1p(count)
            partner, bonus = self.pairs.get(token, (None, 0.0))
            if partner in counts:
                total += bonus
        for first, second in zip(tokens, tokens[1:]):
            total += 0.001 * len(set(first) & set(second))
        return number, round(total, 6)

    def score_all(self, documents, workers):
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            return dict(pool.imap_unordered(self.score, documents, chunksize=8))


class Ranking:
    def __init__(self, scores):
        self.scores = scores

    def top(self, count):
        return sorted(self.scores, key=lambda n: (-self.scores[n], n))[:count]

    def checksum(self):
        text = ",".join(f"{n}:{self.scores[n]:.5f}" for n in sorted(self.scores))
        return f"{zlib.crc32(text.encode()):08x}"


def main():
    rng = random.Random(41)
    words = make_words(12000, rng)
    scorer = Scorer(words, rng)
    documents = make_documents(words, 1200, rng)
    ranking = Ranking(scorer.score_all(documents, workers=2))
    print(len(ranking.scores), ranking.top(3), ranking.checksum())


if __name__ == "__main__":
    main()
