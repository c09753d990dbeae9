"""Builds an inverted index over generated articles and ranks them for some queries."""
import collections
import math
import random
import re

ARTICLES = 900
TOKEN = re.compile(r"[a-z]+")


def make_vocabulary(rng, size):
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = set()
    while len(words) < size:
        words.add("".join(rng.choices(syllables, k=rng.randrange(2, 5))))
    return sorted(words)


def make_articles(seed):
    rng = random.Random(seed)
    words = make_vocabulary(rng, 3000)
    weights = [1.0 / (n + 5) for n in range(len(words))]
    rng.shuffle(words)
    for number in range(ARTICLES):
        picked = rng.choices(words, weights, k=rng.randrange(200, 800))
        yield number, " ".join(picked).capitalize() + "."


class Index:
    def __init__(self):
        self.postings = collections.defaultdict(dict)
        self.lengths = {}

    def add(self, number, text):
        counts = collections.Counter(TOKEN.findall(text.lower()))
        self.lengths[number] = sum(counts.values())
        for word, count in counts.items():
            self.postings[word][number] = count

    def finish(self):
        self.mean = sum(self.lengths.values()) / len(self.lengths)

    def weight(self, word):
        holders = len(self.postings.get(word, ()))
        return math.log(1 + (len(self.lengths) - holders + 0.5) / (holders + 0.5))

    def search(self, query, limit=5):
        scores = collections.defaultdict(float)
        for word in query:
            weight = self.weight(word)
            for number, count in self.postings.get(word, {}).items():
                norm = 0.25 + 0.75 * self.lengths[number] / self.mean
                scores[number] += weight * count * 2.2 / (count + 1.2 * norm)
        ranked = sorted(scores.items(), key=lambda kv: (-kv[1], kv[0]))
        return ranked[:limit]


def main():
    index = Index()
    for number, text in make_articles(1):
        index.add(number, text)
    index.finish()
    rng = random.Random(2)
    words = sorted(index.postings)
    total, mark = 0.0, 0
    for _ in range(2000):
        for number, score in index.search(rng.sample(words, 4)):
            total += score
            mark = (mark * 31 + number) % 1000003
    print(f"words={len(words)} score={total:.4f} mark={mark}")


if __name__ == "__main__":
    main()
