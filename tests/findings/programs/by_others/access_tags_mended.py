"""Summarise a service log: tags per severity, and the busiest minutes."""
import hashlib
import random
import re
from collections import Counter, defaultdict

LINE = re.compile(r"^(\d\d:\d\d):(\d\d) (INFO|WARN|ERROR) (\S+) (.*)$")
TAGS = re.compile(r"^\[(\w+(?:,\w+)*,?)\]$")
WORDS = ["auth", "cache", "db", "disk", "grpc", "http", "jobs", "mail", "queue", "search"]


def make_log(count, seed):
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        second = number // 20
        stamp = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        level = rng.choices(["INFO", "WARN", "ERROR"], [80, 15, 5])[0]
        tags = "[" + ",".join(rng.sample(WORDS, rng.randint(1, 4))) + "]"
        if rng.random() < 0.02:
            tags = "[" + "".join(rng.sample(WORDS, 5))[:14] + "..."
        lines.append(f"{stamp} {level} node{rng.randint(1, 40)} {tags}")
    return lines


class Record:
    __slots__ = ("minute", "level", "node", "tags")

    def __init__(self, minute, level, node, tags):
        self.minute = minute
        self.level = level
        self.node = node
        self.tags = tags


def parse_tags(text):
    match = TAGS.match(text)
    if match is None:
        return ()
    return tuple(part for part in match.group(1).split(",") if part)


def parse(lines):
    for line in lines:
        match = LINE.match(line)
        if match is None:
            continue
        minute, _, level, node, rest = match.groups()
        yield Record(minute, level, node, parse_tags(rest))


class Report:
    def __init__(self):
        self.tags = defaultdict(Counter)
        self.minutes = Counter()
        self.nodes = defaultdict(set)
        self.untagged = 0

    def add(self, record):
        self.minutes[record.minute] += 1
        self.nodes[record.level].add(record.node)
        if not record.tags:
            self.untagged += 1
        for tag in record.tags:
            self.tags[record.level][tag] += 1

    def render(self):
        rows = []
        for level in sorted(self.tags):
            for tag, count in sorted(self.tags[level].items()):
                rows.append(f"{level} {tag} {count}")
            rows.append(f"{level} nodes {len(self.nodes[level])}")
        rows.extend(f"{minute} {count}" for minute, count in self.minutes.most_common(5))
        rows.append(f"untagged {self.untagged}")
        return "\n".join(rows)


def main():
    report = Report()
    for record in parse(make_log(60000, 11)):
        report.add(record)
    text = report.render()
    print(report.untagged, hashlib.sha1(text.encode()).hexdigest()[:12])


if __name__ == "__main__":
    main()
