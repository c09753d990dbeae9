"""TAU's snapshots: the last interval data of each thread, without the rows of call paths."""

import xml.etree.ElementTree as ET


def count(path):
    root = ET.parse(path).getroot()
    paths = {event.get("id") for event in root.iter("event") if " => " in event.findtext("name")}
    last = {
        profile.get("thread"): profile.findtext("interval_data") for profile in root.iter("profile")
    }
    rows = [line.split() for text in last.values() for line in text.split("\n") if line.strip()]
    rows = [row for row in rows if row[0] not in paths]
    return {
        "calls": sum(int(row[1]) for row in rows),
        "exclusive": sum(float(row[3]) for row in rows),
    }
