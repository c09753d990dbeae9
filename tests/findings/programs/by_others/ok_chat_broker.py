"""In-memory publish/subscribe broker with bounded queues and a moderation stage."""
import asyncio
import hashlib
import random

ROOMS = 12
MEMBERS = 8
MESSAGES = 22000


class Broker:
    def __init__(self, depth):
        self.depth = depth
        self.rooms = {}

    def subscribe(self, room):
        box = asyncio.Queue(self.depth)
        self.rooms.setdefault(room, []).append(box)
        return box

    async def publish(self, room, message):
        for box in self.rooms.get(room, ()):
            await box.put(message)

    async def close(self):
        for boxes in self.rooms.values():
            for box in boxes:
                await box.put(None)


class Moderator:
    def __init__(self, banned):
        self.banned = set(banned)
        self.masked = 0

    def clean(self, text):
        words = []
        for word in text.split():
            if word in self.banned:
                self.masked += 1
                word = "*" * len(word)
            words.append(word)
        return " ".join(words)


class Member:
    def __init__(self, name, box):
        self.name = name
        self.box = box
        self.seen = 0
        self.state = hashlib.blake2b(name.encode(), digest_size=16).digest()

    async def listen(self):
        while (message := await self.box.get()) is not None:
            self.seen += 1
            key = self.state + message.encode()
            self.state = hashlib.blake2b(key, digest_size=16).digest()


async def talk(broker, moderator, rng):
    words = [f"word{n}" for n in range(60)]
    for number in range(MESSAGES):
        text = " ".join(rng.choices(words, k=12))
        room = f"room{rng.randrange(ROOMS)}"
        await broker.publish(room, f"{number} {moderator.clean(text)}")
    await broker.close()


async def main():
    broker = Broker(depth=32)
    moderator = Moderator({"word3", "word17", "word42"})
    members = []
    for room in range(ROOMS):
        for number in range(MEMBERS):
            members.append(Member(f"m{room}.{number}", broker.subscribe(f"room{room}")))
    tasks = [asyncio.create_task(m.listen()) for m in members]
    await talk(broker, moderator, random.Random(3))
    await asyncio.gather(*tasks)
    whole = hashlib.blake2b(b"".join(m.state for m in members), digest_size=6)
    print(f"seen={sum(m.seen for m in members)} masked={moderator.masked} mark={whole.hexdigest()}")


if __name__ == "__main__":
    asyncio.run(main())
