"""A small gateway: TCP clients ask for sensor readings, the gateway reads the field bus."""
import asyncio
import hashlib
import json
import random
import time

SENSORS = [f"bay{n // 8}/probe{n % 8}" for n in range(48)]
CLIENTS = 16
ROUNDS = 18


class FieldBus:
    """Driver of the bus; one exchange takes a few milliseconds on the wire."""

    def __init__(self, seed, turnaround=0.006):
        rng = random.Random(seed)
        self.turnaround = turnaround
        self.base = {name: rng.uniform(15.0, 30.0) for name in SENSORS}

    def exchange(self, sensor, tick):
        time.sleep(self.turnaround)
        drift = (hash_int(sensor) + tick * 37) % 100 / 100.0
        return self.base[sensor] + drift


def hash_int(text):
    return int.from_bytes(hashlib.sha1(text.encode()).digest()[:4], "big")


def sign(payload):
    digest = payload
    for _ in range(600):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()[:16]


class Gateway:
    def __init__(self, bus):
        self.bus = bus
        self.served = 0

    async def reading(self, sensor, tick):
        value = await asyncio.to_thread(self.bus.exchange, sensor, tick)
        return round(value, 3)

    async def handle(self, reader, writer):
        while True:
            line = await reader.readline()
            if not line:
                break
            request = json.loads(line)
            value = await self.reading(request["sensor"], request["tick"])
            body = {"sensor": request["sensor"], "value": value}
            body["sig"] = sign(json.dumps(body, sort_keys=True).encode())
            writer.write(json.dumps(body).encode() + b"\n")
            await writer.drain()
            self.served += 1
        writer.close()


async def client(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    rng = random.Random(number)
    total, sigs = 0.0, []
    for tick in range(ROUNDS):
        request = {"sensor": rng.choice(SENSORS), "tick": tick}
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
        answer = json.loads(await reader.readline())
        total += answer["value"]
        sigs.append(answer["sig"])
    writer.close()
    return total, sigs


async def main():
    gateway = Gateway(FieldBus(seed=11))
    server = await asyncio.start_server(gateway.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    results = await asyncio.gather(*(client(port, n) for n in range(CLIENTS)))
    await asyncio.sleep(0.02)
    server.close()
    total = sum(r[0] for r in results)
    mark = hashlib.md5("".join(s for r in results for s in r[1]).encode()).hexdigest()
    print(f"served={gateway.served} total={total:.3f} mark={mark[:12]}")


if __name__ == "__main__":
    asyncio.run(main())
