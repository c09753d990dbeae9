"""A child process that lives until the watch has noted it, however busy the machine is."""

from __future__ import annotations

from taupy.state.heartbeat import SEEN_BYTES
from taupy.state.watch_files import FOUND

RUN_UNTIL_NOTED = f"""
import glob, os, struct, subprocess, time
def run_until_noted(*command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE)  # it ends when that is closed
    # Its own command: at first it has its parent's.
    pid, text = struct.pack("<q", child.pid), os.fsencode(command[command.index("-c") + 1][:8])
    def is_noted():
        for file in glob.glob(os.environ["TAUPY_STATE_DIR"] + "/run-*/{FOUND}"):
            with open(file, "rb") as opened: data = opened.read()
            noted = [data[at:at + {SEEN_BYTES}] for at in range(0, len(data), {SEEN_BYTES})]
            if any(each.startswith(pid) and text in each for each in noted): return True
        return False
    until = time.monotonic() + 60
    while not is_noted() and time.monotonic() < until: time.sleep(0.01)
    child.communicate()
"""
"""For the source of a program: `run_until_noted(python, "-c", text)`."""
