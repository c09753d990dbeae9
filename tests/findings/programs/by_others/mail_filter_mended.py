"""Reads raw message headers and bodies, classifies lines and counts terms per sender."""
import collections
import random
import re
import zlib

MESSAGES = 2600
WORDS = "order invoice meeting notes lunch budget server update travel photo sale report team draft".split()

HEADING = re.compile(r"^\w+(?:[ -]\w+)*[ -]?:\s")
WORD = re.compile(r"[a-z]+")
AMOUNT = re.compile(r"\b(\d+)\.(\d\d)\b")


def make_message(number, rng):
    lines = [f"From: user{number % 60}@example.org", f"Subject Line: {' '.join(rng.choices(WORDS, k=4))}"]
    for _ in range(rng.randrange(4, 10)):
        lines.append("> " + " ".join(rng.choices(WORDS, k=9)) + f", {rng.randrange(900)}.{rng.randrange(100):02d} due.")
    if number % 40 == 0:
        lines.append("REF" + "".join(rng.choices("0123456789ABCDEF", k=15)) + ";")
    lines.append(f"Reply By: day {rng.randrange(30)}")
    return "\n".join(lines)


class Message:
    def __init__(self):
        self.headings = {}
        self.body = []

    @property
    def sender(self):
        return self.headings.get("from", "?")


def parse_message(text):
    message = Message()
    for line in text.splitlines():
        if HEADING.match(line):
            name, _, value = line.partition(":")
            message.headings[name.lower()] = value.strip()
        else:
            message.body.append(line)
    return message


class Index:
    def __init__(self):
        self.terms = collections.defaultdict(collections.Counter)
        self.cents = collections.Counter()

    def add(self, message):
        terms = self.terms[message.sender]
        for line in message.body:
            terms.update(WORD.findall(line.lower()))
            for whole, part in AMOUNT.findall(line):
                self.cents[message.sender] += int(whole) * 100 + int(part)

    def rows(self):
        for sender in sorted(self.terms):
            top = sorted(self.terms[sender].items(), key=lambda kv: (-kv[1], kv[0]))[:3]
            yield f"{sender} {self.cents[sender]} {top}"


def main():
    rng = random.Random(40)
    index, headings = Index(), 0
    for number in range(MESSAGES):
        message = parse_message(make_message(number, rng))
        headings += len(message.headings)
        index.add(message)
    text = "\n".join(index.rows())
    print(f"messages={MESSAGES} headings={headings} mark={zlib.crc32(text.encode()):08x}")


if __name__ == "__main__":
    main()
