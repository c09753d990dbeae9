"""Perfetto traces: slices that begin (1) and end (2) on tracks, and their times."""

import gzip
from pathlib import Path


def count(path):
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    sums = {"slices": 0, "ns": 0}
    tracks = {}
    for field, packet in fields(data):
        if field != 1 or not isinstance(packet, bytes):
            continue
        parts = dict(fields(packet))
        if 11 not in parts:
            continue
        event = dict(fields(parts[11]))
        kind, track = event.get(9), tracks.setdefault(event.get(11), [])
        if kind == 1:
            track.append(parts[8])
            sums["slices"] += 1
        elif kind == 2 and track:
            begun = track.pop()
            if not track:
                sums["ns"] += parts[8] - begun
    return sums


def fields(data):
    at = 0
    while at < len(data):
        if not data[at]:  # a stray zero byte
            at += 1
            continue
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = 8 if key & 7 == 1 else 4
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at
