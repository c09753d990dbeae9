"""Answers calls in the order in which they came."""


class Line:
    def __init__(self, number):
        self.waiting = list(range(number))
        self.answered = 0

    def answer(self):
        call = self.waiting.pop(0)
        if call % 5 == 0:
            self.waiting.append(call + 1)
        self.answered += 1
        return call


line = Line(150_000)
total = 0
while line.waiting:
    total += line.answer()
print(line.answered, total)
