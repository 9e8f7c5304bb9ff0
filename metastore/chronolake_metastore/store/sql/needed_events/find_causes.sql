-- For each table with events: the facts by which its first needed event follows (domain/needed_events.py), of all tables at
-- once. Each part looks few rows up by an index, whatever the length of the timeline, but the savepoint and the window.
SELECT
    c.table_id,
    c.version,
    t.dropped_at IS NOT NULL,
    -- While a table is hidden from Hudi's readers, publication reads what has left in the archive.
    CASE WHEN p.hidden_at IS NULL THEN p.published_version END,
    (p.history ->> 'before')::bigint,
    micros(pending.requested_time),
    micros(least(unswept.requested_time, undone.requested_time)),
    micros(savepoint.requested_time),
    micros(replaced.requested_time),
    micros(t.earliest_commit_to_retain),
    micros(last_write.requested_time),
    wanted.commits,
    micros(recent.requested_time),
    micros(fewest.requested_time)
FROM clock c
JOIN lake_table t ON t.table_id = c.table_id
LEFT JOIN publication p ON p.table_id = c.table_id
CROSS JOIN LATERAL (
    SELECT
        coalesce((t.definition -> 'properties' ->> %(keep_min)s::text)::int, %(keep_min_default)s) AS commits,
        greatest(
            3600 * coalesce((t.definition -> 'properties' ->> %(active_hours)s::text)::int, 0),
            coalesce((t.definition -> 'properties' ->> %(grace)s::text)::int, %(grace_default)s)
        ) AS seconds
) AS wanted
CROSS JOIN LATERAL (
    -- Pending instants, and those that they undo.
    SELECT min(least(i.requested_time, i.target, undoing.requested_time)) AS requested_time
    FROM instant i
    LEFT JOIN LATERAL (
        SELECT min(other.requested_time) AS requested_time
        FROM instant other
        WHERE i.action = 'restore'
            AND other.table_id = i.table_id
            AND other.undone_completion_time IS NOT NULL
            AND other.rolled_back_by = i.requested_time
    ) AS undoing ON true
    WHERE i.table_id = c.table_id AND i.state IN ('requested', 'inflight')
) AS pending
CROSS JOIN LATERAL (
    -- Late files of these are searched for yet.
    SELECT min(least(i.requested_time, i.target)) AS requested_time
    FROM instant i
    WHERE i.table_id = c.table_id AND i.grace_began_at IS NOT NULL AND i.state IN ('completed', 'rolled_back')
) AS unswept
CROSS JOIN LATERAL (
    SELECT min(i.requested_time) AS requested_time
    FROM instant i
    WHERE i.table_id = c.table_id
        AND i.undone_completion_time IS NOT NULL
        AND i.action <> 'savepoint'
        AND EXISTS (
            SELECT
            FROM file f
            WHERE f.table_id = i.table_id
                AND f.live_from = i.undone_completion_time
                AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
                AND f.requested_time = i.requested_time
                AND f.cleaned_by IS NULL
        )
) AS undone
LEFT JOIN LATERAL (
    -- A restore undoes the instants that completed after the saved one.
    SELECT min(later.requested_time) AS requested_time
    FROM (
        SELECT min(saved.completion_time) AS completion_time
        FROM instant pinning
        JOIN instant saved ON saved.table_id = pinning.table_id AND saved.requested_time = pinning.target
        WHERE pinning.table_id = c.table_id AND pinning.action = 'savepoint' AND pinning.state = 'completed'
    ) AS oldest
    JOIN instant later ON later.table_id = c.table_id AND later.completion_time >= oldest.completion_time
    WHERE t.dropped_at IS NULL
) AS savepoint ON true
LEFT JOIN LATERAL (
    -- From the first file on that is superseded and not cleaned.
    SELECT min(r.requested_time) AS requested_time
    FROM (
        SELECT min(f.superseded_at) AS superseded_at
        FROM file f
        WHERE f.table_id = c.table_id AND f.superseded_at IS NOT NULL AND f.cleaned_by IS NULL
    ) AS uncleaned
    JOIN replaced_group r ON r.table_id = c.table_id AND r.replaced_at >= uncleaned.superseded_at
    WHERE t.dropped_at IS NULL
        AND EXISTS (
            SELECT
            FROM file f
            WHERE f.table_id = r.table_id AND f.superseded_at = r.replaced_at AND f.cleaned_by IS NULL
        )
) AS replaced ON true
LEFT JOIN LATERAL (
    SELECT i.requested_time
    FROM instant i
    WHERE i.table_id = c.table_id
        AND i.completion_time IS NOT NULL
        AND i.action IN ('commit', 'deltacommit', 'replacecommit')
        AND t.dropped_at IS NULL
    ORDER BY i.completion_time DESC
    LIMIT 1
) AS last_write ON true
LEFT JOIN LATERAL (
    SELECT min(i.requested_time) AS requested_time
    FROM instant i
    WHERE i.table_id = c.table_id
        AND i.completion_time >= moment(now_us()) - wanted.seconds * interval '1 second'
        AND %(with_window)s::boolean
        AND t.dropped_at IS NULL
) AS recent ON true
LEFT JOIN LATERAL (
    SELECT i.requested_time
    FROM instant i
    WHERE i.table_id = c.table_id
        AND i.completion_time IS NOT NULL
        AND i.action IN ('commit', 'deltacommit', 'replacecommit')
        AND %(with_window)s::boolean
        AND t.dropped_at IS NULL
    ORDER BY i.completion_time DESC
    OFFSET greatest(wanted.commits - 1, 0)
    LIMIT 1
) AS fewest ON true
WHERE %(is_of_all)s::boolean OR c.table_id = ANY (%(table_ids)s::uuid[])
