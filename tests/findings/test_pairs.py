"""Twins that do what the advice says: they do the same, and the fault is gone."""

from __future__ import annotations

import re

import pytest

from taupy.analysis.findings import RULES
from taupy.model.finding import Finding
from taupy.profiledb.writer import add_profile
from taupy.report.report import report
from tests.builders import database_at
from tests.findings import (
    gpu_faults,
    gpu_healthy,
    pairs,
    test_findings,
    test_kernel_code,
    test_series,
)
from tests.findings.cases import (
    BUSY,
    BY_OTHERS,
    HISTORY,
    INDEPENDENT,
    LOOK_ALIKES,
    PICKLED,
    PROGRAMS,
    TRAININGS,
    WITHOUT_ADVICE,
)
from tests.gpu.pairs import try_pairs

KINDS = {name: kind for name, (kind, _) in (PROGRAMS | INDEPENDENT).items()}
QUICK = {"codec_at_each_call", "average_so_far"}
OTHER = 0.15
"""Share of a run under taupy that is none of the program's: it begins later and ends later."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in (*pairs.PAIRS, *pairs.MODULES.values())
    ],
)
def test_a_twin_that_does_what_the_advice_says_is_free_of_the_fault(name, tmp_path):
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    pairs.skip_without_packages(pairs.faulty(name) / f"{name}.py")
    before, after = pairs.both(tmp_path, name)
    costs = [pairs.cost(folder, name) for folder in (before, after)]
    outputs = [cost.output for cost in costs]
    assert NUMBER.sub("#", outputs[0]) == NUMBER.sub("#", outputs[1])
    numbers = [[float(number) for number in NUMBER.findall(output)] for output in outputs]
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-4)

    def measured(folder):
        return pairs.measured(folder, f"{name}.py")

    def of_kind(report):
        return [finding for finding in report.judgement.findings if finding.kind == KINDS[name]]

    assert of_kind(measured(after)) == []
    claims = of_kind(pairs.measured_until(of_kind, before, measured))
    assert claims
    if not claims[0].saved_bytes and not no_more_is_saved(claims, *costs):
        # A busy machine may have slowed one program more than the other, or than the claim's run.
        again = [pairs.cost(folder, name) for folder in (before, after)]
        costs = [min(both, key=lambda cost: cost.cpu_s) for both in zip(costs, again, strict=True)]
    assert claims[0].saved_bytes or no_more_is_saved(claims, *costs)


def no_more_is_saved(claims: list[Finding], before: pairs.Cost, after: pairs.Cost) -> bool:
    """Whether the bound holds, in seconds or as a share of the run.

    On a busy machine, what a claim is about takes no less elapsed time than CPU time, but may be a
    smaller share of the run; if CPUs are slower then, it may have more CPU time, but no larger
    share. Of several processes, CPU time is that of all.
    """
    saved_s, at_most_s = before.cpu_s - after.cpu_s, sum(claim.saved_ns for claim in claims) / 1e9
    at_most = sum(claim.saved_share for claim in claims)
    return saved_s <= (1 + OTHER) * at_most_s or saved_s / before.cpu_s <= at_most + OTHER


def found(folder, profile):
    with database_at(str(folder / f"{profile.duration_ns}.db")) as db:
        add_profile(db, profile)
        return report(db, db.latest()).judgement.findings


def table() -> dict[str, tuple[set[str], set[str]]]:
    """Each rule's pairs, and the healthy programs and profiles that look like its fault."""
    tried = [(KINDS[name], name) for name in {*pairs.PAIRS, *pairs.MODULES.values()}]
    tried += [(pair.kind, name) for name, pair in (try_pairs.PAIRS | try_pairs.CODE).items()]
    tried += [(kind, name) for name, kind in BY_OTHERS.items()]
    alike = [(kind, name) for kind, names in LOOK_ALIKES.items() for name in names]
    alike += [("kernel's code", name) for name in test_kernel_code.LOOK_ALIKES]
    alike += [("step time", name) for name in test_series.OTHER_STEPS]
    alike += [("memory growth", name) for name in test_series.OTHER_MEMORY]
    alike += [("regression", f"last {ms} ms") for ms in test_findings.WITHIN]
    return {
        rule.KIND: tuple({name for kind, name in names if kind.partition(": ")[0] == rule.KIND}
                         for names in (tried, alike))
        for rule in RULES
    }  # fmt: skip


def test_every_rule_has_two_look_alikes_and_two_pairs_or_gives_no_advice():
    number = {kind: (len(tried), len(alike)) for kind, (tried, alike) in table().items()}
    assert [kind for kind, (_, alike) in number.items() if alike < 2] == []
    assert {kind for kind, (tried, _) in number.items() if tried < 2} == {*WITHOUT_ADVICE}
    played = {training.__name__ for training in gpu_healthy.HEALTHY}
    named = {name for names in LOOK_ALIKES.values() for name in names}
    assert named <= {*test_findings.HEALTHY, *played}


@pytest.mark.parametrize("name", TRAININGS)
def test_advice_is_given_where_a_twin_has_followed_it(name, tmp_path):
    kind, _ = TRAININGS[name]
    finding = next(one for one in found(tmp_path, getattr(gpu_faults, name)()) if one.kind == kind)
    of_gpu = {rule.KIND for rule in RULES if "gpu" in rule.NEEDS}
    assert bool(finding.attempt) == (kind in of_gpu)


# --- one place, and only what was tried ------------------------------------------------


def findings_of(tmp_path, text: str, number: int):
    """All of a program that should have at least so many."""
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    (folder := tmp_path / "run").mkdir()
    (folder / "program.py").write_text(text)

    def are_so_many(report):
        return len(report.judgement.findings) >= number

    def measured(folder):
        return pairs.measured(folder, "program.py")

    return pairs.measured_until(are_so_many, folder, measured).judgement.findings


@pytest.mark.slow
def test_each_function_that_is_mapped_is_a_place_and_text_is_none(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    dear, cheap = findings_of(tmp_path, SWAP, 2)
    assert "(program.py:7)" in dear.sentence and "call to_datetime once" in dear.attempt
    assert "(program.py:5)" in cheap.sentence and "whole columns" in cheap.attempt
    assert dear.saved_ns > cheap.saved_ns


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["Pool(2)", "Pool(2, maxtasksperchild=8)"])
def test_what_tells_workers_to_end_is_no_job(tmp_path, pool):
    pairs.skip_without_packages(pairs.faulty("table_for_each_job") / "table_for_each_job.py")
    text = (pairs.faulty("table_for_each_job") / "table_for_each_job.py").read_text()
    text = text.replace("Pool(2)", pool)
    sentences = [finding.sentence for finding in findings_of(tmp_path, text, 1)]
    assert any(": 60 jobs are pickled in" in sentence for sentence in sentences)


@pytest.mark.slow
def test_two_functions_that_one_routine_maps_are_two_places_with_their_own_time(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    found = findings_of(tmp_path, BOTH, 2)
    dear, cheap = sorted(found, key=lambda one: "(program.py:4)" in one.sentence)
    assert "(program.py:2)" in dear.sentence and "60,000 times" in dear.sentence
    assert "(program.py:4)" in cheap.sentence and "50,000 times" in cheap.sentence
    assert dear.saved_ns + cheap.saved_ns < dear.wall_ns


BOTH = """\
import pandas as pd
def span(text):
    return pd.to_timedelta(text)
def number(text):
    return pd.to_numeric(text)
def both(spans, numbers):
    return spans.map(span), numbers.map(number)
both(pd.Series(["3 min"] * 60000), pd.Series(["2.5"] * 50000))
"""
SWAP = """\
import pandas as pd
df = pd.DataFrame({"when": ["01/02/2024 10:00"] * 4000})
sales = pd.DataFrame({"price": [2.0] * 12000, "qty": 3})
def cheap(df):
    df["total"] = df.apply(lambda r: r["price"] * r["qty"], axis=1)
def dear(df):
    df["t"] = df["when"].apply(lambda s: pd.to_datetime(s, format="%d/%m/%Y %H:%M"))
def text(df):
    df["u"] = df["when"].apply(lambda s: s[:2])
cheap(sales); dear(df); text(df)
"""

PIPELINE = """\
import pandas as pd
df = pd.DataFrame({"user": range(3000), "price": 2.0, "qty": 3, "when": "01/02/2024 10:00"})
def parse(df):
    df["t"] = df["when"].apply(lambda s: pd.to_datetime(s, format="%d/%m/%Y %H:%M"))
    return df
def features(df):
    df["total"] = df.apply(lambda r: r["price"] * r["qty"] * (0.9 if r["qty"] > 5 else 1), axis=1)
    parts = pd.DataFrame()
    for _, group in df.groupby("user", sort=False).head(50).groupby("user"):
        parts = pd.concat([parts, pd.DataFrame({"m": [group.total.mean()]})])
    return parts
features(parse(df))
"""
WORKERS = """\
import time, torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        decode(i)
        return torch.randn(8), 0
def decode(i):
    until = time.perf_counter() + 0.005
    while time.perf_counter() < until: pass
if __name__ == "__main__":
    net = torch.nn.Linear(8, 2)
    for _ in range(4):
        for x, y in torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2):
            torch.nn.functional.cross_entropy(net(x), y).backward()
"""


@pytest.mark.slow
def test_of_two_dear_mappers_the_dearer_comes_first(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    mappers = [one for one in findings_of(tmp_path, PIPELINE, 2) if one.kind != HISTORY]
    first = mappers[0]  # beside the table that grows by a row
    assert "(program.py:4)" in first.sentence and "call to_datetime once" in first.attempt


@pytest.mark.slow
def test_a_wait_for_workers_names_what_takes_their_time_and_gives_no_advice(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    (wait,) = [one for one in findings_of(tmp_path, WORKERS, 1) if one.kind == "data wait"]
    assert "of it in decode (program.py:7)" in wait.sentence
    assert wait.attempt == ""


LOADED = """\
import json
with open("state.json", "w") as file:
    json.dump({"numbers": list(range(50_000))}, file)
def predict(x):
    with open("state.json") as file:
        return len(json.load(file)["numbers"]) + x
print(sum(predict(n) for n in range(40)))
"""
RESULTS = """\
import json
def tile(number):
    return [number * n % 251 for n in range(30_000)]
def main():
    index = []
    for number in range(30):
        new = tile(number)
        with open(f"{number}.json", "w") as file:
            json.dump(new, file)
        index.append(number)
    with open("index.json", "w") as file:
        json.dump(index, file)
main()
"""
COLUMNS = """\
import numpy as np
def weigh(columns, weights):
    total = 0.0
    for n in range(len(columns)):
        total += columns[n] * weights[n]
    return total
columns = [np.full(200_000, float(n)) for n in range(60)]
for _ in range(10):
    weigh(columns, [0.5] * 60)
"""
CHUNKS = """\
import multiprocessing
import numpy as np
def work(chunk):
    return float(np.sqrt(chunk).sum())
def main():
    data = np.ones(4_000_000)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.imap(work, np.array_split(data, 16))))
        pool.close()
        pool.join()
main()
"""


SLEEPERS = """\
import threading, time
def fetch(found):
    for _ in range(10):
        time.sleep(0.01)
        found.append(sum(range(5000)))
found = []
threads = [threading.Thread(target=fetch, args=(found,)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


FEW_ROWS = """\
import numpy as np
import pandas as pd
def main():
    random = np.random.default_rng(5)
    sales = pd.DataFrame({"region": random.integers(0, 6, 40_000), "total": random.random(40_000)})
    for week in range(80):
        by_region = sales[sales["total"] > week / 100].groupby("region").sum()
        for region, row in by_region.iterrows():
            print(week, region, round(row["total"], 3))
main()
"""
FOUR_AT_A_TIME = """\
import threading, time
at_once = threading.Semaphore(4)
def fetch():
    for _ in range(10):
        at_once.acquire()
        try:
            time.sleep(0.02)
        finally:
            at_once.release()
threads = [threading.Thread(target=fetch) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [LOADED, RESULTS, COLUMNS, CHUNKS, SLEEPERS, FEW_ROWS, FOUR_AT_A_TIME],
    ids=["loaded", "results", "columns", "chunks", "sleepers", "few_rows", "four_at_a_time"],
)
def test_what_looks_like_a_fault_is_none(text, tmp_path):
    if "numpy" in text:
        pytest.importorskip("numpy", reason="numpy is not installed: pip install numpy")
    assert [finding.sentence for finding in findings_of(tmp_path, text, 0)] == []


@pytest.mark.parametrize("way", ["with", "try"])
def test_the_lock_that_is_held_over_a_sleep_is_found(way, tmp_path):
    text = HELD if way == "with" else HELD.replace(*TRIED)
    (finding,) = findings_of(tmp_path, text, 1)
    assert finding.kind == f"{BUSY}: lock held"
    # Its `with lock:` if the watch has looked there, else its first line.
    assert re.search(r"the lock that work \(program.py:[35]\) takes", finding.sentence)
    assert "waits for sleep" in finding.sentence


TRIED = (
    "        with guard:\n            time.sleep(0.005)\n",
    "        guard.acquire()\n        try:\n            time.sleep(0.005)\n"
    "        finally:\n            guard.release()\n",
)
HELD = """\
import threading, time
guard = threading.RLock()
def work():
    for _ in range(60):
        with guard:
            time.sleep(0.005)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
def test_a_thread_of_a_pool_that_pickles_what_the_program_yields_is_no_second_finding(tmp_path):
    """Its generator runs there for a moment: the cause is what is sent with each job."""
    kinds = [finding.kind for finding in findings_of(tmp_path, YIELDED, 1)]
    assert kinds[:1] == [PICKLED]
    assert f"{BUSY}: producer" not in kinds


YIELDED = """\
from multiprocessing import get_context
class Desk:
    def __init__(self):
        self.places = {f"{n:06}": (n % 8, n / 7, str(n % 3)) for n in range(40_000)}
    def quote(self, batch):
        return [len(self.places) * n for n in batch]
    def run(self):
        with get_context("fork").Pool(2) as pool:
            yield from pool.imap(self.quote, batches(24))
def batches(count):
    for n in range(count):
        yield list(range(n, n + 2))
if __name__ == "__main__":
    print(sum(map(sum, Desk().run())))
"""
