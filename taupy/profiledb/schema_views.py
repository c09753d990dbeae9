"""Views of the database, for people who write SQL.

They store nothing, so they are created again whenever the schema's version changes.
"""

from __future__ import annotations

_NAMES = """
           trial.id AS trial_id, application.name AS application,
           experiment.name AS experiment, trial.name AS trial"""

# Whether a thread that could compute did so is not known of all trials.
_STATE = """CASE WHEN line.state <> 'cpu' OR line.on_cpu = 1 THEN line.state
                WHEN line.on_cpu = 0 THEN 'runnable' ELSE 'active' END"""

_GROUPS = """(SELECT group_concat(timer_group.name, '|') FROM timer_group
                WHERE timer_group.timer_id = timer.id) AS "groups" """

# When trials began, in nanoseconds since the epoch.
_BEGUN = """(SELECT id, CAST(strftime('%s', started_at) AS INTEGER) * 1000000000
                   + CAST(substr(started_at, 21, 6) AS INTEGER) * 1000 AS ns FROM trial) AS begun"""

LONGEST_PATH = 100
"""Maximum number of routines shown of a call path, counted from its end."""

# Walks from a call path to its root, and joins the names in reverse.
_PATH = f"""(
        WITH RECURSIVE above (steps, timer_id, parent_id) AS (
            SELECT 0, start.timer_id, start.parent_id FROM callpath AS start
             WHERE start.id = callpath.id
            UNION ALL
            SELECT above.steps + 1, next.timer_id, next.parent_id
              FROM above CROSS JOIN callpath AS next ON next.id = above.parent_id
             WHERE above.steps < {LONGEST_PATH - 1}
        )
        SELECT iif(max(steps) < callpath.depth, '... => ', '')
               || group_concat(name, ' => ')
          FROM (SELECT above.steps, routine.name FROM above
                  JOIN timer AS routine ON routine.id = above.timer_id
                 ORDER BY above.steps DESC)
    ) AS path"""

# The timer of group OPERATOR that is nearest to a call path, or farthest.
_OPERATOR = """(
        WITH RECURSIVE above (steps, timer_id, parent_id, depth) AS (
            SELECT 0, start.timer_id, start.parent_id, start.depth FROM callpath AS start
             WHERE start.id = launch.callpath_id
            UNION ALL
            SELECT above.steps + 1, next.timer_id, next.parent_id, above.depth
              FROM above CROSS JOIN callpath AS next ON next.id = above.parent_id
             WHERE above.steps < above.depth
        )
        SELECT timer.short_name FROM above
          JOIN timer_group ON timer_group.timer_id = above.timer_id
           AND timer_group.name = 'OPERATOR'
          JOIN timer ON timer.id = above.timer_id
         ORDER BY above.steps {order} LIMIT 1
    )"""

VIEWS = {
    "trials": """
    SELECT trial.id AS trial_id, application.name AS application,
           experiment.name AS experiment, trial.name AS trial,
           trial.started_at, trial.duration_ns / 1e9 AS duration_s,
           trial.exit_code, trial.state,
           (SELECT count(DISTINCT thread.node) FROM thread
             WHERE thread.trial_id = trial.id) AS nodes,
           (SELECT ifnull(sum(thread.count), 0) FROM thread
             WHERE thread.trial_id = trial.id) AS threads,
           (SELECT group_concat(tag.name, ', ') FROM tag WHERE tag.trial_id = trial.id) AS tags,
           trial.source, trial.uuid
      FROM trial
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
     ORDER BY trial.id""",
    "pprof": f"""
    SELECT {_NAMES},
           metric.name AS metric, metric.unit,
           thread.node, thread.context, thread.thread,
           round(100.0 * value.inclusive / nullif(thread_metric.largest_inclusive, 0), 2)
               AS percent,
           iif(metric.unit = 'ns', value.exclusive / 1e6, NULL) AS exclusive_ms,
           iif(metric.unit = 'ns', value.inclusive / 1e6, NULL) AS inclusive_ms,
           timer_call.calls, timer_call.subroutines,
           iif(metric.unit = 'ns', value.inclusive / 1e3 / nullif(timer_call.calls, 0), NULL)
               AS usec_per_call,
           timer.name AS timer, {_GROUPS},
           value.exclusive, value.inclusive
      FROM trial
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
      CROSS JOIN thread_metric ON thread_metric.trial_id = trial.id
      CROSS JOIN metric ON metric.id = thread_metric.metric_id
      CROSS JOIN thread ON thread.id = thread_metric.thread_id
      CROSS JOIN timer_value AS value
              ON value.trial_id = trial.id AND value.metric_id = metric.id
             AND value.thread_id = thread.id
      CROSS JOIN timer_call
              ON timer_call.trial_id = trial.id AND timer_call.thread_id = thread.id
             AND timer_call.timer_id = value.timer_id
      CROSS JOIN timer ON timer.id = value.timer_id
     ORDER BY trial.id, metric.id, thread.node, thread.context, thread.thread,
              value.inclusive DESC, timer.name""",
    # Like TAU's, means, minima and deviations count a thread without the timer as 0. Of threads
    # that were added up, each counts as their mean.
    "function_summary": f"""
    SELECT {_NAMES},
           metric.name AS metric, metric.unit,
           timer.name AS timer, {_GROUPS},
           summed.threads, summed.calls, summed.subroutines,
           summed.exclusive, summed.inclusive,
           iif(metric.unit = 'ns', summed.exclusive / 1e6, NULL) AS exclusive_ms,
           iif(metric.unit = 'ns', summed.inclusive / 1e6, NULL) AS inclusive_ms,
           iif(metric.unit = 'ns', summed.inclusive / 1e3 / nullif(summed.calls, 0), NULL)
               AS usec_per_call,
           1.0 * summed.calls / measured.threads AS calls_mean,
           1.0 * summed.exclusive / measured.threads AS exclusive_mean,
           iif(summed.threads < measured.threads, min(0, summed.exclusive_minimum),
               summed.exclusive_minimum) AS exclusive_minimum,
           summed.exclusive_maximum,
           sqrt(abs(summed.exclusive_squares / measured.threads
                    - (1.0 * summed.exclusive / measured.threads)
                      * (1.0 * summed.exclusive / measured.threads))) AS exclusive_stddev,
           1.0 * summed.inclusive / measured.threads AS inclusive_mean,
           iif(summed.threads < measured.threads, min(0, summed.inclusive_minimum),
               summed.inclusive_minimum) AS inclusive_minimum,
           summed.inclusive_maximum,
           sqrt(abs(summed.inclusive_squares / measured.threads
                    - (1.0 * summed.inclusive / measured.threads)
                      * (1.0 * summed.inclusive / measured.threads))) AS inclusive_stddev
      FROM (SELECT value.trial_id, value.metric_id, value.timer_id,
                   sum(min(thread.count, max(timer_call.calls, 1))) AS threads,
                   sum(timer_call.calls) AS calls,
                   sum(timer_call.subroutines) AS subroutines,
                   sum(value.exclusive) AS exclusive,
                   min(value.exclusive / thread.count) AS exclusive_minimum,
                   max(value.exclusive / thread.count) AS exclusive_maximum,
                   sum(1.0 * value.exclusive * value.exclusive / thread.count)
                       AS exclusive_squares,
                   sum(value.inclusive) AS inclusive,
                   min(value.inclusive / thread.count) AS inclusive_minimum,
                   max(value.inclusive / thread.count) AS inclusive_maximum,
                   sum(1.0 * value.inclusive * value.inclusive / thread.count)
                       AS inclusive_squares
              FROM timer_value AS value
              CROSS JOIN timer_call
                      ON timer_call.trial_id = value.trial_id
                     AND timer_call.thread_id = value.thread_id
                     AND timer_call.timer_id = value.timer_id
              CROSS JOIN thread ON thread.id = value.thread_id
             GROUP BY value.trial_id, value.metric_id, value.timer_id) AS summed
      JOIN (SELECT thread_metric.trial_id, metric_id, sum(thread.count) AS threads
              FROM thread_metric JOIN thread ON thread.id = thread_metric.thread_id
             GROUP BY thread_metric.trial_id, metric_id) AS measured
        ON measured.trial_id = summed.trial_id AND measured.metric_id = summed.metric_id
      JOIN trial ON trial.id = summed.trial_id
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
      JOIN metric ON metric.id = summed.metric_id
      JOIN timer ON timer.id = summed.timer_id
     ORDER BY summed.trial_id, summed.metric_id, summed.inclusive DESC, timer.name""",
    "callpaths": f"""
    SELECT {_NAMES},
           metric.name AS metric, metric.unit,
           thread.node, thread.context, thread.thread,
           iif(metric.unit = 'ns', value.exclusive / 1e6, NULL) AS exclusive_ms,
           iif(metric.unit = 'ns', value.inclusive / 1e6, NULL) AS inclusive_ms,
           call.calls, call.subroutines, {_PATH}, timer.name AS timer, {_GROUPS},
           callpath.depth, callpath.id AS callpath_id, callpath.parent_id,
           value.exclusive, value.inclusive
      FROM interval_value AS value
      CROSS JOIN call
              ON call.trial_id = value.trial_id AND call.callpath_id = value.callpath_id
             AND call.thread_id = value.thread_id
      CROSS JOIN callpath ON callpath.id = value.callpath_id
      CROSS JOIN timer ON timer.id = callpath.timer_id
      CROSS JOIN thread ON thread.id = value.thread_id
      CROSS JOIN metric ON metric.id = value.metric_id
      CROSS JOIN trial ON trial.id = value.trial_id
      CROSS JOIN experiment ON experiment.id = trial.experiment_id
      CROSS JOIN application ON application.id = experiment.application_id""",
    "user_events": f"""
    SELECT {_NAMES},
           thread.node, thread.context, thread.thread,
           user_event.name AS event, user_event.unit,
           value.count, value.minimum, value.maximum, value.mean,
           sqrt(abs(value.sum_squares / nullif(value.count, 0) - value.mean * value.mean))
               AS stddev,
           {_PATH}
      FROM user_event_value AS value
      JOIN user_event ON user_event.id = value.user_event_id
      JOIN thread ON thread.id = value.thread_id
      JOIN trial ON trial.id = value.trial_id
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
      LEFT JOIN callpath ON callpath.id = value.callpath_id
     ORDER BY value.trial_id, thread.node, thread.context, thread.thread,
              user_event.name""",
    # Sampled user events over time; seconds since the trial's start.
    "timeline": f"""
    SELECT {_NAMES},
           thread.node, thread.context, thread.thread,
           user_event.name AS event, user_event.unit,
           (sample.start_ns - begun.ns) / 1e9 AS start_s,
           (sample.end_ns - begun.ns) / 1e9 AS end_s,
           sample.mean, sample.minimum, sample.maximum, sample.count
      FROM trial
      JOIN {_BEGUN} ON begun.id = trial.id
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
      CROSS JOIN sample ON sample.trial_id = trial.id
      CROSS JOIN thread ON thread.id = sample.thread_id
      CROSS JOIN user_event ON user_event.id = sample.user_event_id
     ORDER BY sample.trial_id, sample.thread_id, sample.user_event_id, sample.start_ns""",
    # Training iterations with their logged values; seconds since the trial's start.
    "steps": f"""
    SELECT {_NAMES},
           thread.node, thread.thread, step.kind, step.number, step.count,
           (step.start_ns - begun.ns) / 1e9 AS start_s, step.time_ns / 1e6 AS time_ms,
           step.samples,
           step.data_ns / 1e6 AS data_ms, step.forward_ns / 1e6 AS forward_ms,
           step.loss_ns / 1e6 AS loss_ms, step.backward_ns / 1e6 AS backward_ms,
           step.optimizer_ns / 1e6 AS optimizer_ms,
           (SELECT group_concat(step_value.name || ' ' || step_value.value, ', ') FROM step_value
             WHERE step_value.trial_id = step.trial_id AND step_value.thread_id = step.thread_id
               AND step_value.kind = step.kind AND step_value.number = step.number) AS "values"
      FROM trial
      JOIN {_BEGUN} ON begun.id = trial.id
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
      CROSS JOIN step ON step.trial_id = trial.id AND step.kind <> 'stretch'
      CROSS JOIN thread ON thread.id = step.thread_id
     ORDER BY step.trial_id, step.thread_id, step.kind, step.number""",
    # Lines of the program, estimated from looks unless there is a count; `callee` is the library's
    # routine that was called.
    "lines": f"""
    SELECT {_NAMES},
           thread.node, thread.thread, timer.file, line.line, timer.short_name AS routine,
           callee.short_name AS callee, {_STATE} AS state, line.looks,
           line.time_ns / 1e6 AS about_ms, line.count, line.inclusive_ns / 1e6 AS inclusive_ms
      FROM line
      CROSS JOIN thread ON thread.id = line.thread_id
      CROSS JOIN timer ON timer.id = line.timer_id
      CROSS JOIN trial ON trial.id = line.trial_id
      CROSS JOIN experiment ON experiment.id = trial.experiment_id
      CROSS JOIN application ON application.id = experiment.application_id
      LEFT JOIN timer AS callee ON callee.id = line.callee_id
     ORDER BY line.trial_id, line.time_ns DESC, line.id""",
    # What ran on GPUs, summed over streams, call paths and configurations.
    "kernels": f"""
    SELECT {_NAMES},
           thread.node, thread.context, timer.name AS timer, timer.short_name, {_GROUPS},
           sum(launch.count) AS calls, sum(launch.untimed) AS untimed,
           sum(launch.time_ns) AS time_ns,
           1.0 * sum(launch.time_ns) / nullif(sum(launch.count - launch.untimed), 0) AS mean_ns,
           min(iif(launch.count > launch.untimed, launch.minimum_ns, NULL)) AS minimum_ns,
           max(iif(launch.count > launch.untimed, launch.maximum_ns, NULL)) AS maximum_ns,
           sum(launch.bytes) AS bytes,
           sum(launch.occupancy * launch.time_ns)
               / nullif(sum(iif(launch.occupancy IS NULL, 0, launch.time_ns)), 0) AS occupancy
      FROM launch
      CROSS JOIN thread ON thread.id = launch.thread_id
      CROSS JOIN callpath ON callpath.id = launch.callpath_id
      CROSS JOIN timer ON timer.id = callpath.timer_id
      CROSS JOIN trial ON trial.id = launch.trial_id
      CROSS JOIN experiment ON experiment.id = trial.experiment_id
      CROSS JOIN application ON application.id = experiment.application_id
     GROUP BY launch.trial_id, thread.node, thread.context, timer.id
     ORDER BY launch.trial_id, thread.node, thread.context, time_ns DESC""",
    # The same by operator; NULL where there is none.
    "operators": f"""
    SELECT {_NAMES},
           ran.node, ran.context, ran.operator, ran.outer_operator,
           sum(ran.launches) AS launches, sum(ran.untimed) AS untimed, sum(ran.time_ns) AS time_ns
      FROM (SELECT launch.trial_id, thread.node, thread.context,
                   {_OPERATOR.format(order="ASC")} AS operator,
                   {_OPERATOR.format(order="DESC")} AS outer_operator,
                   launch.count AS launches, launch.untimed, launch.time_ns
              FROM launch
              CROSS JOIN thread ON thread.id = launch.thread_id) AS ran
      CROSS JOIN trial ON trial.id = ran.trial_id
      CROSS JOIN experiment ON experiment.id = trial.experiment_id
      CROSS JOIN application ON application.id = experiment.application_id
     GROUP BY ran.trial_id, ran.node, ran.context, ran.operator, ran.outer_operator
     ORDER BY ran.trial_id, ran.node, ran.context, time_ns DESC""",
    # Two trials, timer by timer: choose them with trial_id and other_trial_id.
    "comparison": f"""
    SELECT {_NAMES},
           pair.other_trial_id, metric.name AS metric, metric.unit,
           timer.name AS timer, {_GROUPS},
           pair.exclusive, pair.other_exclusive,
           pair.other_exclusive - pair.exclusive AS difference,
           1.0 * pair.other_exclusive / nullif(pair.exclusive, 0) AS ratio,
           ifnull(pair.other_exclusive, 0) - ifnull(pair.exclusive, 0) AS impact
      FROM (SELECT one.trial_id, other.trial_id AS other_trial_id,
                   one.metric_id, used.timer_id,
                   (SELECT sum(value.exclusive) FROM thread
                     CROSS JOIN timer_value AS value
                             ON value.trial_id = one.trial_id AND value.metric_id = one.metric_id
                            AND value.thread_id = thread.id AND value.timer_id = used.timer_id
                     WHERE thread.trial_id = one.trial_id) AS exclusive,
                   (SELECT sum(value.exclusive) FROM thread
                     CROSS JOIN timer_value AS value
                             ON value.trial_id = other.trial_id
                            AND value.metric_id = other.metric_id
                            AND value.thread_id = thread.id AND value.timer_id = used.timer_id
                     WHERE thread.trial_id = other.trial_id) AS other_exclusive
              FROM (SELECT DISTINCT trial_id, metric_id FROM thread_metric) AS one
              JOIN (SELECT DISTINCT trial_id, metric_id FROM thread_metric) AS other
                ON other.metric_id = one.metric_id AND other.trial_id <> one.trial_id
              CROSS JOIN trial_timer AS used
                      ON used.trial_id = one.trial_id
                      OR (used.trial_id = other.trial_id
                          AND NOT EXISTS (SELECT 1 FROM trial_timer AS known
                                           WHERE known.trial_id = one.trial_id
                                             AND known.timer_id = used.timer_id))) AS pair
      JOIN trial ON trial.id = pair.trial_id
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
      JOIN metric ON metric.id = pair.metric_id
      JOIN timer ON timer.id = pair.timer_id
     WHERE pair.exclusive IS NOT NULL OR pair.other_exclusive IS NOT NULL
     ORDER BY pair.trial_id, pair.other_trial_id, pair.metric_id, abs(impact) DESC""",
    "trial_metadata": f"""
    SELECT {_NAMES},
           metadata.node, metadata.name, metadata.value
      FROM metadata
      JOIN trial ON trial.id = metadata.trial_id
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
     ORDER BY metadata.trial_id, ifnull(metadata.node, -1), metadata.name""",
}
"""Views for people, recreated at every migration."""
