"""Discrete-event simulation of walk-in clinics with several desks and returning patients."""
import random

PATIENTS = 1500
DAYS = 20.0
DESKS = 6


class Agenda:
    """Future events in order of time; equal times keep the order of booking."""

    def __init__(self):
        self.events = []
        self.serial = 0

    def book(self, when, action, patient):
        self.serial += 1
        self.events.append((when, self.serial, action, patient))
        self.events.sort()

    def next(self):
        return self.events.pop(0)

    def __bool__(self):
        return bool(self.events)


class Patient:
    def __init__(self, number, rng):
        self.number = number
        self.severity = rng.choice((1, 1, 1, 2, 2, 3))
        self.visits = 0
        self.waited = 0.0
        self.arrived = 0.0


class Clinic:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.agenda = Agenda()
        self.free = DESKS
        self.waiting = []
        self.head = 0
        self.clock = 0.0
        self.handled = 0

    def arrive(self, patient):
        patient.arrived = self.clock
        self.waiting.append(patient)
        self.start_service()

    def start_service(self):
        while self.free and self.head < len(self.waiting):
            patient = self.waiting[self.head]
            self.head += 1
            self.free -= 1
            patient.waited += self.clock - patient.arrived
            length = self.rng.gammavariate(2.0, 0.0012) * patient.severity
            self.agenda.book(self.clock + length, self.leave, patient)

    def leave(self, patient):
        self.free += 1
        self.handled += 1
        patient.visits += 1
        pause = self.rng.expovariate(1.0 / 2.5) / patient.severity
        self.agenda.book(self.clock + pause, self.arrive, patient)
        self.start_service()

    def run(self, until):
        patients = [Patient(n, self.rng) for n in range(PATIENTS)]
        for patient in patients:
            self.agenda.book(self.rng.uniform(0.0, 2.0), self.arrive, patient)
        while self.agenda:
            when, _, action, patient = self.agenda.next()
            if when > until:
                break
            self.clock = when
            action(patient)
        return patients


def main():
    clinic = Clinic(17)
    patients = clinic.run(DAYS)
    waited = sum(p.waited for p in patients)
    visits = [p.visits for p in patients]
    print(f"handled={clinic.handled} waited={waited:.6f} most={max(visits)} clock={clinic.clock:.6f}")


if __name__ == "__main__":
    main()
