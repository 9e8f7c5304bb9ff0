-- The tables as of a moment. It is a function and not a view, because the moment is a parameter. It runs with the rights of
-- its owner, so a caller needs no rights to the projections. Its body is bound when it is created (BEGIN ATOMIC), so the
-- search_path of a caller has no effect on it.
CREATE FUNCTION chronolake.tables_as_of(at timestamptz)
    RETURNS TABLE (
        table_name text,
        table_id uuid,
        table_type text,
        base_path text,
        created_at timestamptz,
        dropped_at timestamptz,
        requested_time timestamptz,
        requested_digits text,
        completion_time timestamptz,
        completion_digits text,
        files bigint,
        size_bytes numeric,
        records numeric
    )
    LANGUAGE sql STABLE SECURITY DEFINER
BEGIN ATOMIC
    SELECT
        t.namespace || '.' || t.name,
        t.table_id,
        t.definition ->> 'type',
        t.definition ->> 'base_path',
        t.created_at,
        t.dropped_at,
        latest.requested_time,
        chronolake.instant_time(latest.requested_time, c.tick_us),
        latest.completion_time,
        chronolake.instant_time(latest.completion_time, c.tick_us),
        CASE WHEN known.has_files THEN live.files END,
        CASE WHEN known.has_files THEN live.size_bytes END,
        CASE WHEN known.has_files THEN live.records END
    FROM chronolake.lake_table t
    JOIN chronolake.clock c ON c.table_id = t.table_id
    -- Rows of earlier instants are not the timeline: the last one before a time may be missing.
    LEFT JOIN chronolake.first_event f ON f.table_id = t.table_id
    LEFT JOIN LATERAL (
        SELECT done.requested_time, done.completion_time
        FROM (
            (
                SELECT i.requested_time, i.completion_time
                FROM chronolake.instant i
                WHERE i.table_id = t.table_id
                    AND i.completion_time <= at
                    AND i.requested_time >= coalesce(f.instants_from, '-infinity')
                ORDER BY i.completion_time DESC
                LIMIT 1
            )
            UNION ALL
            (
                SELECT i.requested_time, i.undone_completion_time
                FROM chronolake.instant i
                WHERE i.table_id = t.table_id
                    AND i.undone_completion_time <= at
                    AND i.requested_time >= coalesce(f.instants_from, '-infinity')
                ORDER BY i.undone_completion_time DESC
                LIMIT 1
            )
        ) AS done (requested_time, completion_time)
        ORDER BY done.completion_time DESC
        LIMIT 1
    ) AS latest ON true
    CROSS JOIN LATERAL (
        SELECT
            count(*) AS files,
            coalesce(sum(l.size_bytes), 0) AS size_bytes,
            coalesce(sum(l.records) FILTER (WHERE l.kind = 'base'), 0) AS records
        FROM chronolake.file l
        WHERE l.table_id = t.table_id
            AND l.live_from <= at
            AND (l.superseded_at IS NULL OR l.superseded_at > at)
    ) AS live
    CROSS JOIN LATERAL (
        -- Files that have left the database left the latest slices before both times.
        SELECT f.files_from IS NULL OR at >= coalesce(t.cleaned_before, '-infinity') OR at >= f.files_from AS has_files
    ) AS known
    WHERE t.created_at <= at AND (t.dropped_at IS NULL OR t.dropped_at > at)
    ORDER BY 1, t.created_at;
END;

COMMENT ON FUNCTION chronolake.tables_as_of(timestamptz) IS
    'The tables that existed at a moment, also those that were dropped later: last completed instant, live files.';
