import random

SYL = ["ka", "lo", "mir", "ten", "su", "pra", "vo", "del", "ing", "er", "ost", "ul", "fa", "chi", "ban", "ro"]
QUEUES = ["billing", "network", "hardware", "access", "other"]


def _word(rng):
    return "".join(rng.choice(SYL) for _ in range(rng.randint(2, 4)))


def _typo(word, rng):
    at = rng.randrange(len(word))
    return word[:at] + rng.choice("aeioustr") + word[at + 1 :]


def make_tickets(count, seed):
    rng = random.Random(seed)
    common = [_word(rng) for _ in range(500)]
    special = {q: [_word(rng) for _ in range(45)] for q in QUEUES}
    texts, labels = [], []
    for _ in range(count):
        queue = rng.choices(QUEUES, weights=[4, 3, 3, 2, 2])[0]
        words = []
        for _ in range(rng.randint(15, 45)):
            pool = special[queue] if rng.random() < 0.16 else common
            if rng.random() < 0.04:
                pool = special[rng.choice(QUEUES)]
            word = rng.choice(pool)
            words.append(_typo(word, rng) if rng.random() < 0.15 else word)
        texts.append(" ".join(words))
        labels.append(queue)
    return texts, labels
