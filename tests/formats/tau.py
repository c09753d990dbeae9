"""TAU's profiles: calls and exclusive values of routines, without the rows of call paths."""

import re
from pathlib import Path

ROW = re.compile(r'"(.*)" (\S+) (\S+) (\S+) (\S+) \S+ GROUP="(.*)"\s*')


def count(folder):
    sums = {"calls": 0, "exclusive": 0.0}
    of_time = Path(folder, "MULTI__TIME")
    for file in (of_time if of_time.is_dir() else Path(folder)).glob("profile.*.*.*"):
        for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
            match = ROW.fullmatch(line)
            if match and "TAU_CALLPATH" not in match[6].split("|"):
                sums["calls"] += int(float(match[2]))
                sums["exclusive"] += float(match[4])
    return sums
