"""Classify orbits of a test particle around two moving stars by direct integration."""
import math
import random

DT = 0.01


def star_positions(time, separation, share):
    angle = time / separation ** 1.5
    c, s = math.cos(angle), math.sin(angle)
    return (-share * separation * c, -share * separation * s,
            (1 - share) * separation * c, (1 - share) * separation * s)


def pull(x, y, stars, share):
    ax, ay, bx, by = stars
    dx, dy = x - ax, y - ay
    near = dx * dx + dy * dy + 1e-4
    first = (1 - share) / (near * math.sqrt(near))
    ex, ey = x - bx, y - by
    far = ex * ex + ey * ey + 1e-4
    second = share / (far * math.sqrt(far))
    return -dx * first - ex * second, -dy * first - ey * second


class Orbit:
    def __init__(self, radius, phase):
        speed = 1.0 / math.sqrt(radius)
        self.x, self.y = radius * math.cos(phase), radius * math.sin(phase)
        self.u, self.v = -speed * math.sin(phase), speed * math.cos(phase)

    def follow(self, steps, separation, share, escape):
        x, y, u, v = self.x, self.y, self.u, self.v
        limit = escape * escape
        for k in range(steps):
            stars = star_positions(k * DT, separation, share)
            ax, ay = pull(x, y, stars, share)
            u += ax * DT
            v += ay * DT
            x += u * DT
            y += v * DT
            if x * x + y * y > limit:
                return k
        return steps


def survey(count, steps, seed):
    rng = random.Random(seed)
    lives = []
    for k in range(count):
        orbit = Orbit(1.2 + 2.5 * k / count, rng.uniform(0, 2 * math.pi))
        lives.append(orbit.follow(steps, separation=1.0, share=0.3, escape=12.0))
    return lives


def main():
    steps = 8000
    lives = survey(count=200, steps=steps, seed=23)
    bound = sum(life == steps for life in lives)
    print(f"bound {bound} of {len(lives)} mean life {sum(lives) / len(lives):.2f}")


if __name__ == "__main__":
    main()
