"""Run a layered set of build steps; a step starts when the steps it needs have ended."""
import asyncio
import hashlib
import random


class Step:
    def __init__(self, name, needs, rounds):
        self.name = name
        self.needs = needs
        self.rounds = rounds
        self.finished = asyncio.Event()
        self.digest = b""


class Board:
    def __init__(self):
        self.steps = {}
        self.order = []

    def add(self, step):
        self.steps[step.name] = step

    def finish(self, step, digest):
        step.digest = digest
        step.finished.set()
        self.order.append(step.name)


def make_board(layers, width, seed):
    rng = random.Random(seed)
    board = Board()
    previous = []
    for layer in range(layers):
        current = []
        for column in range(width):
            needs = rng.sample(previous, min(3, len(previous)))
            step = Step(f"s{layer}-{column}", needs, rng.randint(3, 12))
            board.add(step)
            current.append(step.name)
        previous = current
    return board


async def ready(board, step):
    for name in step.needs:
        needed = board.steps[name]
        await needed.finished.wait()


async def build(step, inputs):
    digest = hashlib.sha256(step.name.encode())
    for data in inputs:
        digest.update(data)
    value = digest.digest()
    for _ in range(step.rounds):
        value = hashlib.pbkdf2_hmac("sha256", value, b"step", 110)
        await asyncio.sleep(0)
    return value


async def run_step(board, step):
    await ready(board, step)
    inputs = [board.steps[name].digest for name in step.needs]
    board.finish(step, await build(step, inputs))


async def run_board(board):
    async with asyncio.TaskGroup() as group:
        for step in board.steps.values():
            group.create_task(run_step(board, step))


def summary(board):
    total = hashlib.sha1()
    for name in sorted(board.steps):
        total.update(board.steps[name].digest)
    return len(board.order), total.hexdigest()[:12]


def main():
    board = make_board(layers=70, width=26, seed=9)
    asyncio.run(run_board(board))
    print(*summary(board))


if __name__ == "__main__":
    main()
