"""Four threads for work that only Python does."""

import threading


def collatz(start, stop):
    longest = 0
    for n in range(start, stop):
        length = 0
        while n != 1:
            n = 3 * n + 1 if n & 1 else n >> 1
            length += 1
        if length > longest:
            longest = length
    return longest


def work(found, place):
    found[place] = collatz(1 + place * 20_000, 1 + (place + 1) * 20_000)


found = [0] * 4
threads = [threading.Thread(target=work, args=(found, n)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(max(found))
