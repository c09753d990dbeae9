"""Existing contacts and an incoming event list with untidy addresses."""
import random

FIRST = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo June Kai Lena Milo Nora Otto Pia".split()
LAST = "Abbot Brandt Costa Dunn Ekberg Ferro Grant Holm Iqbal Jansen Keller Lund".split()
COMPANIES = "Acme Borealis Cobalt Delphi Everest Fathom".split()


def person(rng, number):
    first, last = rng.choice(FIRST), rng.choice(LAST)
    company = rng.choice(COMPANIES)
    return f"{first}.{last}{number}@{company}.example", f"{first} {last}", company


def existing_contacts(count, seed=1):
    rng = random.Random(seed)
    return [person(rng, number) for number in range(count)]


def event_list(contacts, count, seed=2):
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        if rng.random() < 0.8:
            email, name, company = rng.choice(contacts)
        else:
            email, name, company = person(rng, 10_000_000 + number)
        email = rng.choice((email, email.lower(), email.upper(), f" {email} "))
        rows.append((email, name, company))
    return rows
