"""A camera that keeps every frame, although only the last one is looked at."""

import time


class Camera:
    def __init__(self):
        self.frames = []

    def take(self, number):
        self.frames.append(bytes([number % 251]) * 4_000_000)
        return self.frames[-1][number]


camera = Camera()
total = 0
for number in range(70):
    total += camera.take(number)
    time.sleep(0.015)
print(total)
