"""Streaming sessionisation with bounded memory."""
from collections import Counter, OrderedDict

GAP = 1800


class Sessions:
    def __init__(self):
        self.open = OrderedDict()
        self.finished = 0
        self.funnel = Counter()
        self.load_ms = Counter()
        self.views = Counter()

    def feed(self, event):
        now = event["ts"]
        self._expire(now)
        visitor = event["visitor"]
        state = self.open.pop(visitor, None)
        if state is None:
            state = [now, set()]
        state[0] = now
        state[1].add(event["page"])
        self.open[visitor] = state
        key = event["page"], event["tags"]["device"]
        self.views[key] += 1
        self.load_ms[key] += event["ms"]

    def _expire(self, now):
        while self.open:
            visitor = next(iter(self.open))
            last, pages = self.open[visitor]
            if now - last <= GAP:
                return
            del self.open[visitor]
            self._finish(pages)

    def _finish(self, pages):
        self.finished += 1
        self.funnel.update(pages)

    def close(self):
        for _, pages in self.open.values():
            self._finish(pages)
        self.open.clear()
