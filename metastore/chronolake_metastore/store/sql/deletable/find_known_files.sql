-- For each file by its name: the state of the instant in the name, and whether the file is published, live or needed, by
-- this table or by a dropped one whose folder overlaps, taken over or not. A file that restores brought back has several
-- periods. An instant of a dropped table counts at any path, because links within a folder may give a file another path.
-- OFFSET 0 makes the planner look these up file by file.
WITH dropped AS MATERIALIZED (
    SELECT near.table_id, near.key, own.key AS own_key
    FROM base_path own
    JOIN base_path near ON starts_with(near.key, own.key) OR starts_with(own.key, near.key)
    JOIN lake_table d ON d.table_id = near.table_id
    WHERE own.table_id = %(table_id)s AND near.table_id <> own.table_id AND d.dropped_at IS NOT NULL
),
held AS MATERIALIZED (
    SELECT saved.completion_time AS at
    FROM instant savepoint
    JOIN instant saved ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
    WHERE savepoint.table_id = %(table_id)s AND savepoint.action = 'savepoint' AND savepoint.state = 'completed'
    UNION
    SELECT r.as_of
    FROM reader r
    WHERE r.table_id = %(table_id)s AND r.as_of IS NOT NULL AND r.expires_at > moment(%(now)s::bigint)
),
followed AS MATERIALIZED (
    SELECT min(coalesce(r.as_of, moment(0))) AS since
    FROM reader r
    WHERE r.table_id = %(table_id)s AND r.follows AND r.expires_at > moment(%(now)s::bigint)
),
published AS MATERIALIZED (
    SELECT p.published_completion AS at
    FROM publication p
    JOIN lake_table t ON t.table_id = p.table_id
    WHERE p.table_id = %(table_id)s
        -- Publication that is off holds nothing, once the table is hidden from Hudi's readers.
        AND CASE
            WHEN t.definition -> 'properties' ->> 'hudi.publish' = 'false'
                THEN p.hidden_at IS NULL AND (p.published_version > 0 OR p.epoch > 0)
            ELSE p.published_version > 0 OR p.lease_expires_at > moment(%(now)s::bigint)
        END
)
SELECT
    n.ordinal,
    i.state,
    coalesce(periods.number > 0, false) AS is_published,
    coalesce(periods.is_live, false) AS is_live,
    coalesce(periods.is_served, false) AS is_served,
    coalesce(periods.is_held, false) AS is_held,
    EXISTS (
        SELECT
        FROM planned_group p
        WHERE (p.table_id, p.partition_path, p.file_id) = (t.table_id, n.partition_path, n.file_id)
        OFFSET 0
    ) AS is_planned,
    coalesce(i.state IN ('requested', 'inflight'), false) AND CASE
        -- Of a stream's instant only what its buffer has: a task that restarts drops its reports, and their files.
        WHEN i.stream IS NOT NULL THEN EXISTS (
            SELECT
            FROM buffered_file b
            WHERE (b.file_id, b.partition_path, b.table_id) = (n.file_id, n.partition_path, t.table_id)
                AND (b.file_name, b.requested_time) = (n.file_name, i.requested_time)
            OFFSET 0
        )
        ELSE EXISTS (
            SELECT
            FROM event e
            JOIN write_stat w ON w.table_id = e.table_id AND w.version = e.version
            WHERE e.table_id = t.table_id
                AND e.instant = i.requested_time
                AND e.type = 'WriteStatsStaged'
                AND w.partition_path = n.partition_path
                AND w.file_name = n.file_name
            OFFSET 0
        )
    END AS is_staged,
    periods.cleaned_by,
    of_dropped.is_known AS is_known_to_dropped,
    -- A time before the instants of a dropped table that the database has may be that of any instant.
    coalesce(of_dropped.is_needed, false) OR EXISTS (
        SELECT
        FROM dropped d
        JOIN first_event left_before ON left_before.table_id = d.table_id
        WHERE moment(n.requested_time) < left_before.instants_from
    ) OR EXISTS (
        SELECT
        FROM dropped d
        JOIN file f
            ON f.table_id = d.table_id
            AND f.partition_path = rtrim(substr(d.own_key || n.partition_path, length(d.key) + 1), '/')
            AND f.file_id = n.file_id
            AND f.file_name = n.file_name
        WHERE starts_with(d.own_key || n.partition_path || '/', d.key)
        OFFSET 0
    ) AS is_needed_by_dropped
FROM lake_table t
CROSS JOIN unnest(
    %(partition_paths)s::text[], %(file_names)s::text[], %(file_ids)s::text[],
    %(requested_times)s::bigint[]
) WITH ORDINALITY AS n (partition_path, file_name, file_id, requested_time, ordinal)
LEFT JOIN instant i ON i.table_id = t.table_id AND i.requested_time = moment(n.requested_time)
CROSS JOIN LATERAL (
    SELECT
        count(*) AS number,
        micros(max(f.cleaned_by)) AS cleaned_by,
        bool_or(f.superseded_at IS NULL) AS is_live,
        bool_or(f.superseded_at IS NULL OR t.cleaned_before IS NULL OR f.superseded_at > t.cleaned_before) AS is_served,
        bool_or(EXISTS (
            SELECT
            FROM held
            WHERE f.live_from <= held.at AND (f.superseded_at IS NULL OR held.at < f.superseded_at)
        ) OR EXISTS (
            SELECT FROM published WHERE f.superseded_at IS NULL OR published.at < f.superseded_at
        ) OR EXISTS (
            SELECT FROM followed WHERE f.superseded_at > followed.since
        )) AS is_held
    FROM file f
    WHERE (f.table_id, f.partition_path, f.file_id) = (t.table_id, n.partition_path, n.file_id)
        -- A log file that Hudi wrote to a table of version 6 has the time of its base file in its name, and was
        -- published by a later instant.
        AND f.requested_time >= moment(n.requested_time)
        AND f.file_name = n.file_name
    OFFSET 0
) AS periods
CROSS JOIN LATERAL (
    SELECT
        count(*) > 0 AS is_known,
        bool_or(i.state = 'completed' OR i.state IN ('requested', 'inflight') AND EXISTS (
            SELECT
            FROM event e
            JOIN write_stat w ON w.table_id = e.table_id AND w.version = e.version
            WHERE e.table_id = d.table_id
                AND e.instant = i.requested_time
                AND e.type = 'WriteStatsStaged'
                AND w.file_name = n.file_name
            OFFSET 0
        )) AS is_needed
    FROM dropped d
    JOIN instant i ON i.table_id = d.table_id AND i.requested_time = moment(n.requested_time)
    OFFSET 0
) AS of_dropped
WHERE t.table_id = %(table_id)s
ORDER BY n.ordinal
