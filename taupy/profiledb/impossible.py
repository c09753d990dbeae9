"""Values that no measurement can yield; the audit of a database looks for them in its tables."""

from __future__ import annotations

OF_TRIALS = (
    ("user_event_value", "count < 0", "user events with a count below 0"),
    (
        "user_event_value",
        "count > 0 AND (minimum > mean + 1e-9 * abs(mean) OR mean > maximum + 1e-9 * abs(mean))",
        "user events whose mean lies outside minimum and maximum",
    ),
    (
        "user_event_value",
        "count > 0 AND sum_squares < count * mean * mean * (1 - 1e-6)",
        "user events whose sum of squares is smaller than their mean allows",
    ),
    ("launch", "count < 0 OR untimed < 0 OR untimed > count", "launches with impossible counts"),
    (
        "launch",
        "count > untimed AND (minimum_ns > maximum_ns OR minimum_ns < 0"
        " OR time_ns < minimum_ns OR time_ns > maximum_ns * (count - untimed))",
        "launches whose time lies outside their minimum and maximum",
    ),
    ("launch", "occupancy < 0 OR occupancy > 1.0001", "launches with an impossible occupancy"),
    ("activity", "end_ns < start_ns", "activities that end before they start"),
    (
        "step",
        "number < 1 OR count < 1 OR time_ns < longest_ns OR longest_ns < 0",
        "steps with impossible counts or times",
    ),
    (
        "collective",
        "number < 1 OR bytes < -1 OR ended_ns < begun_ns",
        "collectives with impossible numbers or times",
    ),
    (
        "module",
        "bytes < 1 OR loads < 1 OR length(sha256) NOT IN (0, 64)",
        "modules with impossible sizes, loads or hashes",
    ),
    ("sample", "end_ns < start_ns OR count < 1", "samples that end before they start"),
    (
        "sample",
        "minimum > mean + 1e-9 * abs(mean) OR mean > maximum + 1e-9 * abs(mean)",
        "samples whose mean lies outside minimum and maximum",
    ),
)
"""Table with a trial_id, condition that marks impossible rows, and a description of them."""

COUNTS = (
    (
        "SELECT count(*) FROM ceiling WHERE NOT (value > 0 AND value < 9e999)",
        "ceilings whose value is not a positive number",
    ),
    (
        "SELECT count(*) FROM trial WHERE NOT (duration_ns >= 0 AND duration_ns < 9e999)",
        "trials whose duration is negative or infinite",
    ),
    (
        "SELECT count(*) FROM trial WHERE trim(uuid) = ''",
        "trials without a uuid",
    ),
    (
        "SELECT count(*) FROM trial WHERE julianday(started_at) IS NULL",
        "trials whose start is not a valid time",
    ),
    (
        "SELECT count(*) FROM experiment JOIN experiment AS other"
        " ON other.name = experiment.name AND other.application_id = experiment.application_id"
        " AND other.id < experiment.id",
        "duplicate experiments",
    ),
)
"""Statement that counts impossible rows, and a description of them."""
