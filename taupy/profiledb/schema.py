"""Every table of the trial database; views are in `schema_views.py`.

Timers, call paths and user events are shared by all trials and have ids derived from their content
(`identity.py`); everything else belongs to a trial and is deleted with it. Keys begin with the
trial, so that a trial's rows are adjacent in the file.
"""

from __future__ import annotations

APPLICATION_ID = 0x54415550  # "TAUP"
"""`PRAGMA application_id` of taupy's files."""

TABLES = (
    """CREATE TABLE application (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    ) STRICT""",
    """CREATE TABLE experiment (
        id INTEGER PRIMARY KEY,
        application_id INTEGER NOT NULL REFERENCES application ON DELETE CASCADE,
        name TEXT NOT NULL,
        UNIQUE (application_id, name)
    ) STRICT""",
    # AUTOINCREMENT: the number of a deleted trial is never reused.
    """CREATE TABLE trial (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        uuid TEXT NOT NULL UNIQUE,
        experiment_id INTEGER NOT NULL REFERENCES experiment ON DELETE CASCADE,
        name TEXT NOT NULL,
        started_at TEXT NOT NULL,
        duration_ns INTEGER NOT NULL,
        exit_code INTEGER,
        state TEXT NOT NULL CHECK (state IN ('complete', 'incomplete')),
        source TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX trial_by_experiment ON trial (experiment_id, name)",
    """CREATE TABLE tag (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        name TEXT NOT NULL,
        PRIMARY KEY (trial_id, name)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE metadata (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        node INTEGER,
        name TEXT NOT NULL,
        value TEXT NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX metadata_identity ON metadata (trial_id, name, ifnull(node, -1))",
    """CREATE TABLE thread (
        id INTEGER PRIMARY KEY,
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        node INTEGER NOT NULL,
        context INTEGER NOT NULL,
        thread INTEGER NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        native_id INTEGER NOT NULL,
        UNIQUE (trial_id, node, context, thread)
    ) STRICT""",
    """CREATE TABLE timer (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        short_name TEXT NOT NULL,
        file TEXT,
        line INTEGER
    ) STRICT""",
    "CREATE INDEX timer_by_name ON timer (name)",
    """CREATE TABLE timer_group (
        timer_id INTEGER NOT NULL REFERENCES timer ON DELETE CASCADE,
        name TEXT NOT NULL,
        PRIMARY KEY (timer_id, name)
    ) STRICT, WITHOUT ROWID""",
    # The path differs between machines that share a timer, so it belongs to the trial.
    """CREATE TABLE trial_timer (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        timer_id INTEGER NOT NULL REFERENCES timer,
        path TEXT,
        PRIMARY KEY (trial_id, timer_id)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE callpath (
        id INTEGER PRIMARY KEY,
        timer_id INTEGER NOT NULL REFERENCES timer,
        parent_id INTEGER REFERENCES callpath,
        depth INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE metric (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        unit TEXT NOT NULL,
        UNIQUE (name, unit)
    ) STRICT""",
    # The metrics of a thread, and the value that is 100 % on it.
    """CREATE TABLE thread_metric (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        metric_id INTEGER NOT NULL REFERENCES metric,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        largest_inclusive ANY,
        PRIMARY KEY (trial_id, metric_id, thread_id)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE call (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        callpath_id INTEGER NOT NULL REFERENCES callpath,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        calls INTEGER NOT NULL,
        subroutines INTEGER NOT NULL,
        PRIMARY KEY (trial_id, callpath_id, thread_id)
    ) STRICT, WITHOUT ROWID""",
    # Values are ANY, so that integers stay integers (time is integer nanoseconds) and reals reals.
    """CREATE TABLE interval_value (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        metric_id INTEGER NOT NULL REFERENCES metric,
        callpath_id INTEGER NOT NULL REFERENCES callpath,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        inclusive ANY,
        exclusive ANY,
        PRIMARY KEY (trial_id, metric_id, callpath_id, thread_id)
    ) STRICT, WITHOUT ROWID""",
    # The flat profile, computed once when the trial is written.
    """CREATE TABLE timer_call (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        timer_id INTEGER NOT NULL REFERENCES timer,
        calls INTEGER NOT NULL,
        subroutines INTEGER NOT NULL,
        PRIMARY KEY (trial_id, thread_id, timer_id)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE timer_value (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        metric_id INTEGER NOT NULL REFERENCES metric,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        timer_id INTEGER NOT NULL REFERENCES timer,
        inclusive ANY,
        exclusive ANY,
        PRIMARY KEY (trial_id, metric_id, thread_id, timer_id)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE user_event (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        unit TEXT NOT NULL
    ) STRICT""",
    # NULL where a value is not a number.
    """CREATE TABLE user_event_value (
        id INTEGER PRIMARY KEY,
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        user_event_id INTEGER NOT NULL REFERENCES user_event,
        callpath_id INTEGER REFERENCES callpath,
        count INTEGER NOT NULL,
        minimum REAL,
        maximum REAL,
        mean REAL,
        sum_squares REAL
    ) STRICT""",
    "CREATE INDEX user_event_value_by_trial ON user_event_value (trial_id, thread_id)",
    """CREATE TABLE device (
        id INTEGER PRIMARY KEY,
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        node INTEGER NOT NULL,
        ordinal INTEGER NOT NULL,
        name TEXT NOT NULL,
        uuid TEXT NOT NULL,
        compute_capability TEXT NOT NULL,
        UNIQUE (trial_id, node, ordinal)
    ) STRICT""",
    """CREATE TABLE device_fact (
        device_id INTEGER NOT NULL REFERENCES device ON DELETE CASCADE,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        value ANY NOT NULL,
        unit TEXT NOT NULL,
        PRIMARY KEY (device_id, position)
    ) STRICT, WITHOUT ROWID""",
    # A kernel or copy with one configuration under one call path; times in nanoseconds.
    """CREATE TABLE launch (
        id INTEGER PRIMARY KEY,
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        callpath_id INTEGER NOT NULL REFERENCES callpath,
        count INTEGER NOT NULL,
        untimed INTEGER NOT NULL,
        time_ns INTEGER NOT NULL,
        minimum_ns INTEGER NOT NULL,
        maximum_ns INTEGER NOT NULL,
        sum_squares_ns2 REAL NOT NULL,
        grid_x INTEGER, grid_y INTEGER, grid_z INTEGER,
        block_x INTEGER, block_y INTEGER, block_z INTEGER,
        registers INTEGER,
        shared_static_bytes INTEGER,
        shared_dynamic_bytes INTEGER,
        local_bytes INTEGER,
        occupancy REAL,
        limiter TEXT,
        bytes INTEGER
    ) STRICT""",
    "CREATE INDEX launch_by_trial ON launch (trial_id, thread_id, callpath_id)",
    # Times are nanoseconds since the epoch.
    """CREATE TABLE activity (
        id INTEGER PRIMARY KEY,
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        callpath_id INTEGER NOT NULL REFERENCES callpath,
        kind TEXT NOT NULL,
        start_ns INTEGER NOT NULL,
        end_ns INTEGER NOT NULL,
        correlation INTEGER,
        bytes INTEGER,
        graph_node INTEGER
    ) STRICT""",
    "CREATE INDEX activity_by_trial ON activity (trial_id, thread_id, start_ns)",
    # Metrics computed from others on demand.
    """CREATE TABLE derived_metric (
        name TEXT PRIMARY KEY,
        expression TEXT NOT NULL,
        unit TEXT NOT NULL,
        description TEXT NOT NULL
    ) STRICT, WITHOUT ROWID""",
    # A processor's peak rates; they belong to no trial.
    """CREATE TABLE ceiling (
        id INTEGER PRIMARY KEY,
        characterization TEXT NOT NULL,
        machine TEXT NOT NULL,
        processor TEXT NOT NULL,
        device_uuid TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('compute', 'bandwidth', 'latency')),
        name TEXT NOT NULL,
        pattern TEXT NOT NULL,
        threads INTEGER NOT NULL,
        value REAL NOT NULL,
        unit TEXT NOT NULL,
        source TEXT NOT NULL CHECK (source IN ('measured', 'datasheet', 'report', 'user')),
        median REAL,
        spread REAL,
        samples INTEGER,
        clock_hz REAL,
        bytes INTEGER,
        reference TEXT NOT NULL,
        measured_at TEXT NOT NULL,
        UNIQUE (characterization, kind, name, pattern, threads)
    ) STRICT""",
)

SAMPLES = (
    # A user event over time. NULL where a value is not a number.
    """CREATE TABLE sample (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        user_event_id INTEGER NOT NULL REFERENCES user_event,
        start_ns INTEGER NOT NULL,
        end_ns INTEGER NOT NULL,
        count INTEGER NOT NULL,
        mean REAL,
        minimum REAL,
        maximum REAL,
        PRIMARY KEY (trial_id, thread_id, user_event_id, start_ns)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 2."""

KERNEL_CODES = (
    # Facts from a kernel's machine code; they belong to no trial, and are found by name.
    """CREATE TABLE kernel_code (
        module TEXT NOT NULL,
        name TEXT NOT NULL,
        full_name TEXT NOT NULL,
        chip TEXT NOT NULL,
        file TEXT NOT NULL,
        compiler TEXT NOT NULL,
        registers INTEGER,
        shared_bytes INTEGER,
        stack_bytes INTEGER,
        local_bytes INTEGER,
        constants TEXT NOT NULL,
        peak_live INTEGER,
        peak_at INTEGER,
        instructions INTEGER NOT NULL,
        blocks INTEGER NOT NULL,
        branches INTEGER NOT NULL,
        divergent INTEGER,
        calls TEXT NOT NULL,
        indirect INTEGER NOT NULL,
        irreducible INTEGER NOT NULL,
        PRIMARY KEY (module, name)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE kernel_code_count (
        module TEXT NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT NOT NULL,
        pipe TEXT NOT NULL,
        depth INTEGER NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (module, name, kind, detail, pipe, depth)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE kernel_code_access (
        module TEXT NOT NULL,
        name TEXT NOT NULL,
        what TEXT NOT NULL,
        space TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        pattern TEXT NOT NULL,
        stride INTEGER,
        depth INTEGER NOT NULL,
        spill INTEGER NOT NULL,
        number INTEGER NOT NULL
    ) STRICT""",
    """CREATE UNIQUE INDEX kernel_code_access_identity ON kernel_code_access
        (module, name, what, space, bytes, pattern, ifnull(stride, 0), depth, spill)""",
    """CREATE TABLE kernel_code_loop (
        module TEXT NOT NULL,
        name TEXT NOT NULL,
        start INTEGER NOT NULL,
        depth INTEGER NOT NULL,
        instructions INTEGER NOT NULL,
        barriers INTEGER NOT NULL,
        line TEXT,
        PRIMARY KEY (module, name, start)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 3."""

KERNEL_LAUNCHES = (
    # Launch parameters fixed by the code; NULL where they are left to the launch.
    "ALTER TABLE kernel_code ADD COLUMN is_kernel INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE kernel_code ADD COLUMN block INTEGER",
    "ALTER TABLE kernel_code ADD COLUMN most_threads INTEGER",
    "ALTER TABLE kernel_code ADD COLUMN dynamic_shared INTEGER",
    """CREATE TABLE kernel_code_line (
        module TEXT NOT NULL,
        name TEXT NOT NULL,
        place TEXT NOT NULL,
        depth INTEGER NOT NULL,
        instructions INTEGER NOT NULL,
        accesses INTEGER NOT NULL,
        spills INTEGER NOT NULL,
        UNIQUE (module, name, place)
    ) STRICT""",
)
"""Additions of version 5."""

STEPS = (
    # Training iterations; a phase is NULL if the step had none. A row may combine `count` steps.
    """CREATE TABLE step (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        kind TEXT NOT NULL,
        number INTEGER NOT NULL,
        count INTEGER NOT NULL,
        start_ns INTEGER NOT NULL,
        time_ns INTEGER NOT NULL,
        longest_ns INTEGER NOT NULL,
        samples INTEGER,
        data_ns INTEGER, forward_ns INTEGER, loss_ns INTEGER, backward_ns INTEGER,
        recompute_ns INTEGER, optimizer_ns INTEGER, scaling_ns INTEGER,
        communication_ns INTEGER, checkpoint_ns INTEGER, validation_ns INTEGER,
        compile_ns INTEGER, import_ns INTEGER,
        PRIMARY KEY (trial_id, thread_id, kind, number)
    ) STRICT, WITHOUT ROWID""",
    # Values that the program logged in a step: loss, accuracy.
    """CREATE TABLE step_value (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        kind TEXT NOT NULL,
        number INTEGER NOT NULL,
        name TEXT NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (trial_id, thread_id, kind, number, name)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 4."""

COLLECTIVES = (
    # What a process did in a process group; `ranks` and `size` are "" and 0 if unknown.
    """CREATE TABLE communicator (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        name TEXT NOT NULL,
        ranks TEXT NOT NULL,
        size INTEGER NOT NULL,
        begun INTEGER NOT NULL,
        stride INTEGER NOT NULL,
        PRIMARY KEY (trial_id, thread_id, name)
    ) STRICT, WITHOUT ROWID""",
    # The same number is the same collective on all ranks. NULL: it had not ended.
    """CREATE TABLE collective (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        communicator TEXT NOT NULL,
        number INTEGER NOT NULL,
        operation TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        asked_ns INTEGER NOT NULL,
        begun_ns INTEGER NOT NULL,
        ended_ns INTEGER,
        callpath_id INTEGER NOT NULL REFERENCES callpath,
        PRIMARY KEY (trial_id, thread_id, communicator, number)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 6."""

LAYERS = (
    # Parameters, shapes and operations of network layers. NULL: unknown.
    """CREATE TABLE layer (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        node INTEGER NOT NULL,
        timer_id INTEGER NOT NULL REFERENCES timer,
        parameters INTEGER,
        parameter_bytes INTEGER,
        input TEXT,
        output TEXT,
        input_varies INTEGER NOT NULL,
        output_varies INTEGER NOT NULL,
        output_bytes INTEGER,
        calls INTEGER NOT NULL,
        flop INTEGER,
        backward_flop INTEGER,
        unknown TEXT NOT NULL,
        PRIMARY KEY (trial_id, node, timer_id)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 7."""

BACKWARD_PASSES = ("ALTER TABLE layer ADD COLUMN backward_passes INTEGER",)
"""Additions of version 10. NULL: as many as calls."""

SOURCES = (
    # The program's own files as they were when the trial was stored. `text` is deflated UTF-8 in
    # base 85; NULL: not kept, and then only what has this SHA-256 is the same file. `masked` is the
    # number of its lines with secrets, `changed` 1 if it was written after the program began.
    """CREATE TABLE source (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        path TEXT NOT NULL,
        file TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        masked INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        text TEXT,
        PRIMARY KEY (trial_id, path)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 11."""

OPERATOR_INPUTS = (
    # Calls of an operator, the call path, with inputs of the same sizes and types; the GPU work is
    # what it launched itself.
    """CREATE TABLE operator_input (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        callpath_id INTEGER NOT NULL REFERENCES callpath,
        signature TEXT NOT NULL,
        calls INTEGER NOT NULL,
        time_ns INTEGER NOT NULL,
        launches INTEGER NOT NULL,
        gpu_ns INTEGER NOT NULL,
        PRIMARY KEY (trial_id, thread_id, callpath_id, signature)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 11, too."""

LINES = (
    # The time of a line of the program: part of the exact time of its routine and what that calls
    # of libraries, divided by looks. Columns are -1 where they are unknown, callee_id is NULL where
    # no library's routine ran. seen_ns and squares are sums over looks, for the standard error.
    """CREATE TABLE line (
        id INTEGER PRIMARY KEY,
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        thread_id INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        timer_id INTEGER NOT NULL REFERENCES timer,
        callee_id INTEGER REFERENCES timer,
        line INTEGER NOT NULL,
        end_line INTEGER NOT NULL,
        start_column INTEGER NOT NULL,
        end_column INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('cpu', 'gil', 'lock', 'wait', 'disk')),
        looks INTEGER NOT NULL,
        time_ns INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL,
        squares REAL NOT NULL,
        text_hash INTEGER,
        context_hash INTEGER
    ) STRICT""",
    "CREATE INDEX line_by_trial ON line (trial_id, thread_id)",
)
"""Additions of version 11, too."""

EXACT_LINES = (
    "ALTER TABLE line ADD COLUMN count INTEGER",
    "ALTER TABLE line ADD COLUMN inclusive_ns INTEGER",
)
"""Additions of version 12. NULL: the row is an estimate. Of the rows of an exact line, one has its
count and inclusive time, the others 0."""

PROCESSORS = ("ALTER TABLE line ADD COLUMN on_cpu INTEGER CHECK (on_cpu IN (0, 1))",)
"""Additions of version 14. Of the state cpu: 1 on a processor, 0 waiting for one; NULL: it is not
known which."""

THREAD_ROWS = (
    "ALTER TABLE thread ADD COLUMN count INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE thread ADD COLUMN least_ns INTEGER",
    "ALTER TABLE thread ADD COLUMN most_ns INTEGER",
)
"""Additions of version 13: a row of threads that were added up."""

MODULES = (
    # Code loaded onto GPUs. sha256 is as in kernel_code.module, "" if it was not hashed.
    """CREATE TABLE module (
        trial_id INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
        node INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        loads INTEGER NOT NULL,
        loaded_ns INTEGER NOT NULL,
        kept INTEGER NOT NULL,
        PRIMARY KEY (trial_id, node, sha256, bytes)
    ) STRICT, WITHOUT ROWID""",
)
"""Additions of version 8."""
