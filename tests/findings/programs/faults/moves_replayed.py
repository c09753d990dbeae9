"""A machine whose place is worked out from all its moves, after each of them."""


class Machine:
    def __init__(self):
        self.moves = []

    def move(self, step):
        self.moves.append(step)

    def place(self):
        place, number = 0, 0
        while number < len(self.moves):
            place = (place * 31 + self.moves[number]) % 1_000_003
            number += 1
        return place


def drive(steps):
    machine, seen = Machine(), 0
    for step in range(steps):
        machine.move(step % 97)
        seen = max(seen, machine.place())
    return seen


print(drive(4_000))
