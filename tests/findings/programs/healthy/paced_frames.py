"""Plays frames at a fixed rate; a polite client of a rate-limited service."""

import time, random


class Bucket:
    def __init__(self, rate):
        self.rate, self.level, self.at = rate, 0.0, time.monotonic()

    def ready(self):
        now = time.monotonic()
        self.level = min(3.0, self.level + (now - self.at) * self.rate)
        self.at = now
        return self.level >= 1

    def take(self):
        while not self.ready():
            time.sleep(0.002)
        self.level -= 1


def play(frames, step):
    due = time.monotonic()
    shown = 0
    for frame in range(frames):
        while time.monotonic() < due:
            time.sleep(0.001)
        shown += sum(i * frame % 7 for i in range(2000))
        due += step
    return shown


def ask(items, bucket):
    out = []
    for one in items:
        bucket.take()
        out.append(one * 3 % 11)
    return sum(out)


print(play(60, 0.02), ask(range(40), Bucket(35)))
