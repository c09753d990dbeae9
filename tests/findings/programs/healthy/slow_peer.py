"""A select loop that reads length-prefixed messages from a peer that sends slowly."""

import selectors, socket, struct, threading, time


def peer(sock):
    for k in range(60):
        time.sleep(0.015)
        body = bytes([k]) * (200 + k)
        sock.sendall(struct.pack("!I", len(body)) + body)
    sock.close()


def exactly(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        if not part:
            return None
        data += part
    return data


def loop(sock):
    sel = selectors.DefaultSelector()
    sel.register(sock, selectors.EVENT_READ)
    total = 0
    while True:
        for key, _ in sel.select(timeout=0.5):
            head = exactly(key.fileobj, 4)
            if head is None:
                return total
            body = exactly(key.fileobj, struct.unpack("!I", head)[0])
            total += sum(body)


def blocking(sock):
    total = 0
    while True:
        head = sock.recv(4)
        if not head:
            return total
        (n,) = struct.unpack("!I", head)
        total += sum(exactly(sock, n))


for way in (loop, blocking):
    a, b = socket.socketpair()
    t = threading.Thread(target=peer, args=(a,))
    t.start()
    print(way(b))
    t.join()
