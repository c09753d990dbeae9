from spread import Fire
from terrain import Plot, Terrain

SIZE = 122
RUNS = 2


def one_run(number):
    land = Terrain(SIZE, seed=900 + number)
    fire = Fire(land, seed=77 * number + 5)
    middle = SIZE // 2
    for dc in (-1, 0, 1):
        fire.light(Plot(middle + dc, middle))
    ticks = 0
    while fire.tick() and ticks < 400:
        ticks += 1
    peak = max(b for b, _ in fire.history)
    return ticks, len(fire.burnt), peak, fire.edge()


def main():
    total = 0
    for n in range(RUNS):
        ticks, burnt, peak, edge = one_run(n)
        total += burnt
        print(f"run {n}: ticks {ticks} burnt {burnt} peak {peak} edge {edge}")
    print(f"mean burnt share {total / (RUNS * SIZE * SIZE):.4f}")


if __name__ == "__main__":
    main()
