"""A producer that sleeps, and a consumer that waits for it in a queue."""

import queue, threading, zlib, time


def produce(q, n):
    for k in range(n):
        time.sleep(0.002)
        q.put(bytes([k % 256]) * 20_000)
    q.put(None)


def consume(q, out):
    while (item := q.get()) is not None:
        out.append(zlib.crc32(item))


def main():
    q, out = queue.Queue(16), []
    a = threading.Thread(target=produce, args=(q, 500))
    b = threading.Thread(target=consume, args=(q, out))
    a.start()
    b.start()
    while b.is_alive():
        b.join(timeout=0.25)
    print(sum(out) % 1009)


main()
