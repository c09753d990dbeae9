"""Sessionises a compressed click stream and prints the funnel."""
import tempfile
from pathlib import Path

from sessions import Sessions
from stream import PAGES, read_events, write_events

EVENTS = 300_000


def main():
    sessions = Sessions()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.jsonl.gz"
        write_events(path, EVENTS)
        for event in read_events(path):
            sessions.feed(event)
    sessions.close()
    print(f"events={EVENTS} sessions={sessions.finished}")
    for page in PAGES:
        views = sum(n for (name, _), n in sessions.views.items() if name == page)
        spent = sum(n for (name, _), n in sessions.load_ms.items() if name == page)
        print(f"{page:<7} sessions={sessions.funnel[page]:<7} mean_ms={spent / views:.1f}")


if __name__ == "__main__":
    main()
