"""Anneal a machine-shop plan: assign jobs to machines to balance load and due dates."""
import copy
import math
import random


class Job:
    def __init__(self, number, minutes, due):
        self.number = number
        self.minutes = minutes
        self.due = due


class Plan:
    def __init__(self, jobs, machines):
        self.jobs = jobs
        self.lines = [[] for _ in range(machines)]
        for job in jobs:
            self.lines[job.number % machines].append(job.number)

    def line_cost(self, line):
        clock = late = 0
        for number in self.lines[line]:
            job = self.jobs[number]
            clock += job.minutes
            if clock > job.due:
                late += clock - job.due
        return late + clock * clock / 2000.0

    def cost(self):
        return sum(self.line_cost(k) for k in range(len(self.lines)))

    def clone(self):
        return copy.deepcopy(self)


def make_jobs(count, seed):
    rng = random.Random(seed)
    return [Job(k, rng.randint(5, 60), rng.randint(60, 900)) for k in range(count)]


def move(plan, rng):
    lines = plan.lines
    source = rng.randrange(len(lines))
    while not lines[source]:
        source = rng.randrange(len(lines))
    target = rng.randrange(len(lines))
    number = lines[source].pop(rng.randrange(len(lines[source])))
    lines[target].insert(rng.randint(0, len(lines[target])), number)


class Annealer:
    def __init__(self, plan, seed):
        self.plan = plan
        self.rng = random.Random(seed)
        self.best = plan.cost()
        self.accepted = 0

    def run(self, steps, hot, cold):
        current = self.plan.cost()
        for k in range(steps):
            heat = hot * (cold / hot) ** (k / steps)
            trial = self.plan.clone()
            move(trial, self.rng)
            cost = trial.cost()
            if cost <= current or self.rng.random() < math.exp((current - cost) / heat):
                self.plan, current = trial, cost
                self.accepted += 1
                self.best = min(self.best, cost)
        return current


def utilisation(plan):
    loads = [sum(plan.jobs[n].minutes for n in line) for line in plan.lines]
    return min(loads) / max(loads)


def main():
    plan = Plan(make_jobs(150, seed=91), machines=8)
    annealer = Annealer(plan, seed=92)
    final = annealer.run(steps=8000, hot=200.0, cold=1.0)
    print(f"final {final:.3f} best {annealer.best:.3f} accepted {annealer.accepted} "
          f"use {utilisation(annealer.plan):.4f}")


if __name__ == "__main__":
    main()
