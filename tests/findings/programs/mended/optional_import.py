"""A fast path that is looked for at every call, and is never there."""

import csv
import io


try:
    import an_accelerated_parser
except ImportError:
    an_accelerated_parser = None


def parse(line):
    if an_accelerated_parser is None:
        return next(csv.reader([line]))
    return an_accelerated_parser.parse(line)


def main():
    text = io.StringIO("\n".join(f"{n},{n * n},{n % 7}" for n in range(1_500)))
    rows = [parse(line) for line in text]
    print(sum(int(row[1]) for row in rows))


main()
