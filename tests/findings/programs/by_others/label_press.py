"""A label press: a planner hands sheets to a press thread and adapts to each proof."""
import collections
import hashlib
import queue
import random
import threading
import time

SHEETS = 85


class Press(threading.Thread):
    """Prints one sheet after another and hands the proofs back."""

    def __init__(self):
        super().__init__(daemon=True)
        self.inbox = queue.Queue()
        self.proofs = collections.deque()

    def run(self):
        while (sheet := self.inbox.get()) is not None:
            self.proofs.append(self.print_sheet(sheet))

    def print_sheet(self, sheet):
        number, density, cells = sheet
        ink, state = 0, hashlib.md5(f"{number}:{density}".encode()).digest()
        for cell in cells:
            state = hashlib.md5(state + cell.encode()).digest()
            ink += state[0] * density // 100
        return number, ink, state.hex()

    def wait_proof(self):
        while not self.proofs:
            time.sleep(0.025)
        return self.proofs.popleft()


class Planner:
    def __init__(self, press, target):
        self.press = press
        self.target = target
        self.density = 100
        self.log = []

    def sheet(self, number, rng):
        cells = [f"{rng.randrange(10**6):06d}" for _ in range(1600)]
        return number, self.density, cells

    def adapt(self, ink, cells):
        wanted = self.target * cells
        if ink > wanted:
            self.density = max(40, self.density - 3)
        elif ink < wanted:
            self.density = min(160, self.density + 3)

    def run(self, sheets, seed):
        rng = random.Random(seed)
        for number in range(sheets):
            sheet = self.sheet(number, rng)
            self.press.inbox.put(sheet)
            proof, ink, seal = self.press.wait_proof()
            self.adapt(ink, len(sheet[2]))
            self.log.append((proof, ink, seal[:6]))
        self.press.inbox.put(None)


def main():
    press = Press()
    press.start()
    planner = Planner(press, target=110)
    planner.run(SHEETS, 6)
    press.join()
    ink = sum(row[1] for row in planner.log)
    mark = hashlib.md5(repr(planner.log).encode()).hexdigest()[:12]
    print(f"sheets={len(planner.log)} ink={ink} density={planner.density} mark={mark}")


if __name__ == "__main__":
    main()
