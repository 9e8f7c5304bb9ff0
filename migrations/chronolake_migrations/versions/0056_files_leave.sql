ALTER TABLE chronolake.first_event ADD COLUMN files_from timestamptz;

COMMENT ON COLUMN chronolake.first_event.files_from IS
    'Files that cleans before this time have deleted may have left PostgreSQL; null if none have. It is at most instants_from.';

-- Of a moment before that time the files of a table are null, unless the table can be read as of the moment.
CREATE OR REPLACE FUNCTION chronolake.tables_as_of(at timestamptz)
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
        CASE WHEN has_files THEN live.files END,
        CASE WHEN has_files THEN live.size_bytes END,
        CASE WHEN has_files THEN live.records END
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
            coalesce(sum(live.size_bytes), 0) AS size_bytes,
            coalesce(sum(live.records) FILTER (WHERE live.kind = 'base'), 0) AS records
        FROM chronolake.file live
        WHERE live.table_id = t.table_id
            AND live.live_from <= at
            AND (live.superseded_at IS NULL OR live.superseded_at > at)
    ) AS live
    CROSS JOIN LATERAL (
        -- The files that have left the database were cleaned, and were in no slice since the table can be read.
        SELECT f.files_from IS NULL OR at >= coalesce(t.cleaned_before, '-infinity') OR at >= f.files_from AS has_files
    ) AS known
    WHERE t.created_at <= at AND (t.dropped_at IS NULL OR t.dropped_at > at)
    ORDER BY 1, t.created_at;
END;
