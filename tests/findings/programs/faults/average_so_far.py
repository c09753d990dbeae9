"""A player whose average of all its rewards decides how much it tries out."""

import random


class Player:
    def __init__(self):
        self.rewards = []

    def remember(self, reward):
        self.rewards.append(reward)

    def average(self):
        return sum(self.rewards) / len(self.rewards)


def play(rounds):
    player, tried = Player(), 0
    for _ in range(rounds):
        player.remember(random.random())
        tried += random.random() > player.average()
    return tried


random.seed(4)
print(play(9_000))
