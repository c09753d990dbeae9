"""Memory: which routine has made it grow, when it was largest, and under which call path."""

GROWTH = """SELECT timer.short_name, sum(value.count * value.mean) / 1024
              FROM user_event_value value JOIN user_event ON user_event.id = value.user_event_id
              JOIN callpath ON callpath.id = value.callpath_id
              JOIN timer ON timer.id = callpath.timer_id
             WHERE user_event.name = 'Resident Memory Growth' GROUP BY timer.short_name"""

LEAK = """
import threading, time
kept = []
def leak(size=8 << 20):
    block = bytearray(size)
    for at in range(0, size, 4096):
        block[at] = 1
    kept.append(block)
def add(n):
    return sum(range(n))
def churn():
    return len(bytearray(1 << 20))
def leaker():
    for _ in range(20):
        leak()
        time.sleep(0.05)
def worker():
    while not stop.is_set():
        add(2000), churn()
def sleeper():
    while not stop.is_set():
        add(10), time.sleep(0.001)
stop = threading.Event()
others = [threading.Thread(target=one) for one in (worker, sleeper)]
for one in others:
    one.start()
last = threading.Thread(target=leaker)
last.start()
last.join()
stop.set()
"""


def growth_mib(runs):
    return dict(runs.sql(GROWTH))


def test_a_leak_in_one_of_three_threads_is_charged_to_its_routine(runs, native):
    runs.run(LEAK)
    grown = growth_mib(runs)
    assert abs(grown["leak"] - 160) < 0.05 * 160, grown


def test_memory_that_is_given_back_in_the_same_routine_is_no_growth(runs, native):
    source = """
def churn():
    block = bytearray(64 << 20)
    block[::4096] = b"1" * len(block[::4096])
def work():
    for _ in range(20):
        churn()
work()
"""
    runs.run(source)
    assert growth_mib(runs).get("churn", 0) < 2 * 64


def test_the_largest_resident_memory_is_seen_without_new_call_paths(runs, native):
    runs.run("kept = []\ndef f(): kept.append(bytearray(1 << 20))\nfor _ in range(100): f()")
    most = runs.one("SELECT max(maximum) / 1024 FROM user_events WHERE event = 'Resident Memory'")
    assert most > 100
    assert growth_mib(runs)["f"] > 95


def test_many_short_calls_that_touch_memory_leave_nothing_to_innocent_routines(runs, native):
    source = """
kept = []
def touch():
    kept.append(bytearray(64 << 10))
def innocent(n):
    return sum(range(n))
for _ in range(1500):
    touch()
    innocent(3000)
"""
    runs.run(source)
    assert growth_mib(runs).get("innocent", 0) < 0.1 * 1500 / 16
