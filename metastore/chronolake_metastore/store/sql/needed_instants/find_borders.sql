-- For tables of which events have left: the requested time before which all instants may leave, and the first cause that
-- holds it (domain/needed_instants.py). Each instant before it has ended before it, and all of its events have left. Times
-- that need more than the database has are 0. The last part searches what is to leave; the other parts search what stays, or
-- an index.
WITH RECURSIVE wanted AS MATERIALIZED (
    SELECT
        named.table_id, f.dropped_before AS version, coalesce(f.instants_from, moment(0)) AS since, first.time,
        moment(named.until) AS until, named.commits, moment(now_us()) - named.seconds * interval '1 second' AS old
    FROM unnest(%(table_ids)s::uuid[], %(until)s::bigint[], %(commits)s::bigint[], %(seconds)s::bigint[])
        AS named (table_id, until, commits, seconds)
    JOIN first_event f ON f.table_id = named.table_id
    JOIN event first ON first.table_id = f.table_id AND first.version = f.dropped_before
    WHERE f.dropped_before > 1
),
-- What writers have completed: the triggers of services and the policies of cleans count it.
written AS MATERIALIZED (
    SELECT i.table_id, i.requested_time, i.completion_time, i.action, w.old
    FROM wanted w
    JOIN instant i ON i.table_id = w.table_id AND i.requested_time >= w.since AND i.completion_time IS NOT NULL
    WHERE i.action IN ('commit', 'deltacommit', 'replacecommit')
        AND i.operation NOT IN ('compact', 'log_compact', 'cluster')
),
counted AS MATERIALIZED (
    SELECT
        table_id, requested_time, completion_time <= old AS is_old,
        row_number() OVER (PARTITION BY table_id ORDER BY completion_time DESC) AS number, false AS is_delta
    FROM written
    UNION ALL
    SELECT
        table_id, requested_time, completion_time <= old,
        row_number() OVER (PARTITION BY table_id ORDER BY completion_time DESC), true
    FROM written
    WHERE action = 'deltacommit'
),
held AS MATERIALIZED (
    SELECT w.table_id, cause.name, cause.at
    FROM wanted w
    CROSS JOIN LATERAL (
        SELECT 'event' AS name, least(w.time, w.until) AS at
        UNION ALL
        SELECT 'event', min(least(i.requested_time, i.target))
        FROM instant i
        WHERE i.table_id = w.table_id AND i.requested_time >= w.since AND i.version >= w.version
        UNION ALL
        SELECT 'event', min(e.instant) FROM event e WHERE e.table_id = w.table_id AND e.version >= w.version
        UNION ALL
        SELECT 'marker', min(m.requested_time) FROM marker m WHERE m.table_id = w.table_id
        UNION ALL
        SELECT 'stream', min(c.requested_time) FROM stream_checkpoint c WHERE c.table_id = w.table_id
        UNION ALL
        -- A task that is restored reports the files of the last checkpoint again.
        SELECT 'stream', min(last.requested_time)
        FROM stream s
        CROSS JOIN LATERAL (
            SELECT max(i.requested_time) AS requested_time
            FROM instant i
            WHERE i.table_id = s.table_id
                AND i.requested_time >= w.since
                AND i.stream ->> 'name' = s.name
                AND i.state = 'completed'
        ) AS last
        WHERE s.table_id = w.table_id AND s.is_open
        UNION ALL
        SELECT
            'uncleaned',
            least(superseded.at, (
                SELECT max(i.requested_time)
                FROM instant i
                WHERE i.table_id = w.table_id
                    AND i.requested_time >= w.since
                    AND i.completion_time < superseded.at
                    AND i.action IN ('commit', 'deltacommit', 'replacecommit')
            ))
        FROM (
            SELECT min(f.superseded_at) AS at
            FROM file f
            WHERE f.table_id = w.table_id AND f.superseded_at IS NOT NULL AND f.cleaned_by IS NULL
        ) AS superseded
        UNION ALL
        SELECT 'log-file', min(f.requested_time)
        FROM file f
        WHERE f.table_id = w.table_id AND f.superseded_at IS NULL AND f.kind = 'log'
        UNION ALL
        SELECT
            'commits',
            coalesce(min(c.requested_time) FILTER (WHERE c.number = w.commits), moment(0))
        FROM (VALUES (true), (false)) AS kind (is_delta)
        LEFT JOIN counted c ON c.table_id = w.table_id AND c.is_delta = kind.is_delta
        GROUP BY kind.is_delta
        HAVING count(c.table_id) > 0 OR NOT kind.is_delta
        UNION ALL
        SELECT 'seconds', coalesce(max(c.requested_time) FILTER (WHERE c.number = old.number), moment(0))
        FROM (VALUES (true), (false)) AS kind (is_delta)
        LEFT JOIN counted c ON c.table_id = w.table_id AND c.is_delta = kind.is_delta
        CROSS JOIN LATERAL (
            SELECT min(o.number) AS number
            FROM counted o
            WHERE o.table_id = w.table_id AND o.is_delta = kind.is_delta AND o.is_old
        ) AS old
        GROUP BY kind.is_delta
        HAVING count(c.table_id) > 0 OR NOT kind.is_delta
    ) AS cause
    WHERE cause.at IS NOT NULL
),
-- No instant is before the border that ended after it, or was undone after it.
border (table_id, at) AS (
    SELECT h.table_id, min(h.at) FROM held h GROUP BY h.table_id
    UNION ALL
    SELECT b.table_id, earlier.at
    FROM border b
    JOIN wanted w ON w.table_id = b.table_id
    CROSS JOIN LATERAL (
        SELECT min(i.requested_time) AS at
        FROM instant i
        WHERE i.table_id = b.table_id
            AND i.requested_time >= w.since
            AND i.requested_time < b.at
            AND (
                i.state IN ('requested', 'inflight')
                OR greatest(i.completion_time, i.undone_completion_time, i.rolled_back_at, i.rolled_back_by) >= b.at
            )
    ) AS earlier
    WHERE earlier.at IS NOT NULL
)
SELECT
    b.table_id, t.namespace || '.' || t.name, t.dropped_at IS NOT NULL, micros(min(b.at)), micros(w.since),
    (SELECT h.name FROM held h WHERE h.table_id = b.table_id ORDER BY h.at, h.name LIMIT 1)
FROM border b
JOIN wanted w ON w.table_id = b.table_id
JOIN lake_table t ON t.table_id = b.table_id
GROUP BY b.table_id, t.namespace, t.name, t.dropped_at, w.since
ORDER BY t.namespace, t.name, t.dropped_at NULLS FIRST
