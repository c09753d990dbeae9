"""TAU profiles made for tests, written here without the code under test."""

from __future__ import annotations

from pathlib import Path

HEADING = "# Name Calls Subrs Excl Incl ProfileCalls #"
EVENTS = "# eventname numevents max min mean sumsqr"


def row(name, calls=1, subroutines=0, exclusive=0, inclusive=0, groups="TAU_USER"):
    """As TAU writes it, with a blank at its end."""
    return f'"{name}" {calls} {subroutines} {exclusive} {inclusive} 0 GROUP="{groups}" '


def path(name, calls=1, subroutines=0, exclusive=0, inclusive=0, groups="TAU_USER"):
    return row(name, calls, subroutines, exclusive, inclusive, f"TAU_CALLPATH|{groups}")


def metadata(**facts):
    attributes = "".join(
        f"<attribute><name>{name.replace('_', ' ')}</name><value>{value}</value></attribute>"
        for name, value in facts.items()
    )
    return f"{HEADING} <metadata>{attributes}</metadata>"


def text(rows, events=(), metric="TIME", heading=None, version=None):
    version = f"templated_functions_MULTI_{metric}" if version is None else version
    lines = [f"{len(rows)} {version}", heading or metadata(Metric_Name=metric), *rows]
    lines.append("0 aggregates")
    if events:
        lines += [f"{len(events)} userevents", EVENTS, *events]
    return "\n".join(lines) + "\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    """Files by name below a folder: {"profile.0.0.0": text, "MULTI__A/profile.0.0.0": text}."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def profile(folder: Path, rows, **more) -> Path:
    """A folder with one thread."""
    return write(folder, {"profile.0.0.0": text(rows, **more)})


SNAPSHOT = """<profile_xml>

<thread id="0.0.1.1" node="0" context="0" thread="1">
<metadata>
<attribute><name>Hostname</name><value>node&lt;1&gt;</value></attribute>
</metadata>
</thread>

<definitions thread="0.0.1.1">
<metric id="0"><name>TIME</name><units>unknown</units></metric>
<metric id="1"><name>PAPI_FP_OPS</name><units>unknown</units></metric>
<event id="0"><name>.TAU application</name><group>TAU_DEFAULT</group></event>
<event id="1"><name>main</name><group>TAU_USER</group></event>
<event id="2"><name>.TAU application =&gt; main</name><group>TAU_CALLPATH|TAU_USER</group></event>
<event id="3"><name>never entered</name><group>TAU_USER</group></event>
<userevent id="0"><name>Heap (KB)</name></userevent>
<userevent id="1"><name>never sampled</name></userevent>
</definitions>

<profile thread="0.0.1.1">
<name>half way</name>
<timestamp>1700000000000000</timestamp>
<interval_data metrics="0 1 ">
0 1 1 10 30 0 7
1 1 0 20 20 7 7
2 1 0 20 20 7 7
</interval_data>
<atomic_data>
</atomic_data>
</profile>

<profile thread="0.0.1.1">
<name>final</name>
<timestamp>1700000001000000</timestamp>
<interval_data metrics="0 1 ">
0 1 2 10 50.5 0 9
1 2 0 40.5 40.5 9 9
2 2 0 40.5 40.5 9 9
3 0 0 0 0 0 0
</interval_data>
<atomic_data>
0 2 7 1 4 50
1 0 0 0 0 0
</atomic_data>
</profile>

</profile_xml>
"""
"""What TAU_PROFILE_FORMAT=snapshot writes of one thread: two snapshots, the last one counts."""

MERGED = """<profile_xml>
<definitions thread="*">
<metric id="0"><name>TIME</name><units>unknown</units></metric>
<event id="0"><name>.TAU application</name><group>TAU_DEFAULT</group></event>
</definitions>
</profile_xml>
<profile_xml>
<profile thread="0.0.0.0"><name>final</name><interval_data metrics="0 ">
0 1 0 5 5
</interval_data><atomic_data></atomic_data></profile>
</profile_xml>
\0<profile_xml>
<profile thread="1.0.0.0"><name>final</name><interval_data metrics="0 ">
0 1 0 6 6
</interval_data><atomic_data></atomic_data></profile>
</profile_xml>
\0<profile_xml>
<derivedentity id="total">
</derivedentity>
<derivedprofile derivedentity="total">
<derivedinterval_data metrics="0 ">
0 2 0 11 11
</derivedinterval_data>
</derivedprofile>
</profile_xml>
<profile_xml>
<derivedentity id="min_exclusive">
</derivedentity>
<min_exclusive_derivedprofile derivedentity="min_exclusive">
<derivedinterval_data metrics="0 ">
0 1 0 5 5
</derivedinterval_data>
<derivedatomic_data>
</derivedatomic_data>
</min_exclusive_derivedprofile>
</profile_xml>
"""
"""TAU_PROFILE_FORMAT=merged: documents of all processes, a NUL after each, then sums."""
