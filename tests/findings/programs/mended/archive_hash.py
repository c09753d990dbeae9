"""Derive verification keys for archive members, two threads."""
import hashlib
import random
import threading
import time


class Member:
    __slots__ = ("name", "rounds", "key")

    def __init__(self, name, rounds):
        self.name = name
        self.rounds = rounds
        self.key = None


def catalogue(count=60, seed=3):
    rnd = random.Random(seed)
    members = [Member(f"part-{i:03d}", int(rnd.paretovariate(1.2) * 30000) % 1500000 + 30000)
               for i in range(count)]
    members.sort(key=lambda m: m.rounds)
    return members


def derive(member):
    member.key = hashlib.pbkdf2_hmac("sha256", member.name.encode(), b"archive", member.rounds)


class Worker(threading.Thread):
    def __init__(self, label, share, left):
        super().__init__(name=label)
        self.share = share
        self.left = left
        self.busy = 0.0

    def run(self):
        start = time.perf_counter()
        while self.left:
            derive(self.left.pop())
        self.busy = time.perf_counter() - start


def split(members, parts):
    size = (len(members) + parts - 1) // parts
    return [members[i * size:(i + 1) * size] for i in range(parts)]


def main():
    members = catalogue(110)
    left = members[:]
    workers = [Worker(f"derive-{i}", share, left) for i, share in enumerate(split(members, 2))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    digest = hashlib.sha256(b"".join(m.key for m in sorted(members, key=lambda m: m.name)))
    print("archive key", digest.hexdigest()[:16])
    for w in workers:
        print(w.name, len(w.share), "members")


if __name__ == "__main__":
    main()
