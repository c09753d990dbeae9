"""SQLite exports of Nsight Systems: kernels, copies, memsets and API calls."""

import sqlite3

GPU = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")


def count(path):
    with sqlite3.connect(path) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        sums = {"launches": 0, "gpu_ns": 0}
        for table in GPU:
            if table in tables:
                number, took = db.execute(
                    f"SELECT count(*), coalesce(sum(end - start), 0) FROM {table}"
                ).fetchone()
                sums["launches"] += number
                sums["gpu_ns"] += took
        calls = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        sums["api_calls"] = db.execute(calls).fetchone()[0] if calls.split()[-1] in tables else 0
    return sums
