"""What exports say of a program with several threads and worker processes: the names of processes,
and resident memory once for each of them."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

from taupy.formats import registry
from taupy.model.progress import SILENT
from tests.engine.conftest import has_native
from tests.engine.test_spans import profile_of
from tests.engine.test_steps import run as run  # a fixture

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")

PROGRAM = """
import os, threading, time
from torch.utils.data._utils.worker import _worker_loop
def touch(kept=[]):
    for _ in range(8):
        kept.append(bytearray(1 << 22))
        time.sleep(0.011)
def work():
    threads = [threading.Thread(target=touch) for _ in range(3)]
    for thread in threads: thread.start()
    touch()
    for thread in threads: thread.join()
for number in range(2):
    if (child := os.fork()) == 0:
        _worker_loop(*[None] * 10, number, 2)
        work()
        os._exit(0)
    os.waitpid(child, 0)
work()
"""
WORKERS = ["DataLoader worker 0", "DataLoader worker 1"]
RESIDENT = "Resident Memory"


@pytest.fixture
def exported(run, tmp_path):
    profile = profile_of(run(PROGRAM))

    def exported(format_name, name):
        target = tmp_path / name
        (form,) = (each for each in registry.formats() if each.name == format_name)
        registry.exported(profile, form, target, SILENT)
        return target

    exported.profile = profile
    return exported


def test_each_export_names_processes_and_has_their_memory_once(exported):
    profile = exported.profile
    assert len(profile.threads) == 12
    holders = [
        thread.thread.thread
        for thread in profile.threads
        for event in thread.user_events
        if event.name == RESIDENT
    ]
    assert holders == [0, 0, 0]

    rows = list(csv.DictReader(exported("csv-events", "events.csv").read_text().splitlines()))
    of_memory = [row["thread_name"] for row in rows if row["event"] == RESIDENT]
    assert of_memory == ["MainThread", *WORKERS]

    trace = json.loads(exported("chrome", "trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in trace if event["name"] == "process_name"]
    assert names[1:] == WORKERS and names[0] == profile.application
    places = {(event["pid"], event["tid"]) for event in trace if event["ph"] == "C"}
    assert len(places) == len({process for process, _ in places})

    assert all(name.encode() in exported("perfetto", "t.pftrace").read_bytes() for name in WORKERS)
    files = sorted(exported("tau", "tau").iterdir())
    having = [file.name for file in files if f'"{RESIDENT} (KiB)"' in file.read_text()]
    assert having == [f"profile.{node}.0.0" for node in range(3)]
    for format_name, name in (
        *(("csv", "t.csv"), ("csv-callpaths", "p.csv"), ("speedscope", "t.speedscope.json")),
        *(("collapsed", "t.collapsed"), ("hatchet", "t.hatchet.json")),
    ):
        text = exported(format_name, name).read_text()
        assert all(worker in text for worker in WORKERS), format_name
    packed = gzip.decompress(exported("pprof", "t.pb.gz").read_bytes())
    assert all(worker.encode() in packed for worker in WORKERS)
