"""A player whose average of all its rewards decides how much it tries out."""

import random


class Player:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def remember(self, reward):
        self.total += reward
        self.count += 1

    def average(self):
        return self.total / self.count


def play(rounds):
    player, tried = Player(), 0
    for _ in range(rounds):
        player.remember(random.random())
        tried += random.random() > player.average()
    return tried


random.seed(4)
print(play(9_000))
