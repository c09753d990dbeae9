"""Find repeated passages in synthetic documents with polynomial fingerprints."""
import random

MOD = (1 << 61) - 1
BASE = 911382323


def make_documents(count, words, seed):
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choice("abcdefghij") for _ in range(rng.randint(3, 8))) for _ in range(400)]
    passages = [[rng.choice(vocabulary) for _ in range(30)] for _ in range(6)]
    documents = []
    for _ in range(count):
        body = [rng.choice(vocabulary) for _ in range(words)]
        at = rng.randrange(words)
        body[at:at] = rng.choice(passages)
        documents.append(" ".join(body))
    return documents


class Fingerprinter:
    """Prefix fingerprints; the hash of any slice follows from two of them."""

    def __init__(self, text):
        self.prefix = self._prefixes(text)
        self.size = len(text)

    @staticmethod
    def _prefixes(text):
        prefix = [0]
        value = 0
        for char in text:
            value = value * BASE + ord(char)
            prefix.append(value % MOD)
        return prefix

    def windows(self, length):
        power = pow(BASE, length, MOD)
        prefix = self.prefix
        for start in range(self.size - length + 1):
            yield start, (prefix[start + length] - prefix[start] * power) % MOD


def winnow(hashes, span):
    kept = {}
    block = []
    for start, value in hashes:
        block.append((value, start))
        if len(block) == span:
            value, start = min(block)
            kept.setdefault(value, start)
            block = []
    return kept


def index_documents(documents, length, span):
    table = {}
    for number, text in enumerate(documents):
        for value, start in Fingerprinter(text).windows(length):
            if value % span == 0:
                table.setdefault(value, []).append((number, start))
    return table


def shared_pairs(table):
    pairs = {}
    for places in table.values():
        numbers = sorted({number for number, _ in places})
        for i, a in enumerate(numbers):
            for b in numbers[i + 1:]:
                pairs[a, b] = pairs.get((a, b), 0) + 1
    return pairs


def main():
    documents = make_documents(count=90, words=230, seed=81)
    table = index_documents(documents, length=40, span=8)
    pairs = shared_pairs(table)
    sketch = winnow(Fingerprinter(documents[0]).windows(40), span=16)
    print(f"prints {len(table)} pairs {len(pairs)} weight {sum(pairs.values())} "
          f"sketch {sum(sketch) % 1000003}")


if __name__ == "__main__":
    main()
