"""Runs a board of build targets in one event loop; a target starts when its inputs are there."""
import asyncio
import hashlib
import random

TARGETS = 420
WORKERS = 4
STEPS = 9


class Target:
    def __init__(self, name, needs, size):
        self.name = name
        self.needs = needs
        self.size = size
        self.done = False
        self.stamp = b""

    async def wait_done(self):
        while not self.done:
            await asyncio.sleep(0)
        return self.stamp


class Board:
    def __init__(self, targets, slots):
        self.targets = {t.name: t for t in targets}
        self.slots = asyncio.Semaphore(slots)
        self.order = []

    async def compile(self, target, inputs):
        state = hashlib.sha256(b"".join(inputs) + target.name.encode()).digest()
        for _ in range(STEPS):
            for _ in range(target.size):
                state = hashlib.sha256(state).digest()
            await asyncio.sleep(0)
        return state

    async def build(self, target):
        inputs = []
        for name in target.needs:
            inputs.append(await self.targets[name].wait_done())
        async with self.slots:
            target.stamp = await self.compile(target, inputs)
        target.done = True
        self.order.append(target.name)

    async def run(self):
        await asyncio.gather(*(self.build(t) for t in self.targets.values()))


def make_targets(seed):
    rng = random.Random(seed)
    targets = []
    for n in range(TARGETS):
        lowest = max(0, n - 12)
        pool = [f"lib{k}" for k in range(lowest, n)]
        needs = rng.sample(pool, min(len(pool), 3))
        targets.append(Target(f"lib{n}", needs, rng.randrange(60, 140)))
    return targets


def report(board):
    whole = hashlib.sha256()
    for name in sorted(board.targets):
        whole.update(board.targets[name].stamp)
    depth = {}
    for name, target in board.targets.items():
        depth[name] = 1 + max((depth[n] for n in target.needs), default=0)
    return whole.hexdigest()[:16], max(depth.values())


async def main():
    board = Board(make_targets(3), WORKERS)
    await board.run()
    mark, depth = report(board)
    print(f"built={len(board.order)} depth={depth} mark={mark}")


if __name__ == "__main__":
    asyncio.run(main())
