-- A file may be in the latest slices more than once: a restore takes files out, and brings back those that they had
-- superseded. Each time is a row, so that what a table was at any completion time is never changed by what comes
-- later (docs/decisions/0012).
--
-- What restores had undone before is not brought back by this: chronolake-metastore rebuild does it, from the log.

ALTER TABLE chronolake.file
    ADD COLUMN live_from timestamptz,
    ADD COLUMN withdrawn_at timestamptz;
UPDATE chronolake.file SET live_from = completion_time;
ALTER TABLE chronolake.file
    ALTER COLUMN live_from SET NOT NULL,
    DROP CONSTRAINT file_name_unique,
    ADD CONSTRAINT file_name_unique
        PRIMARY KEY (table_id, partition_path, file_id, requested_time, file_name, live_from),
    ADD CONSTRAINT file_lives_forwards CHECK (live_from >= completion_time);

DROP INDEX chronolake.file_completion;
CREATE INDEX file_live_from ON chronolake.file (table_id, live_from);

COMMENT ON TABLE chronolake.file IS 'The published data files of each table, and when each was in the latest slices.';
COMMENT ON COLUMN chronolake.file.live_from IS
    'From when it was in the latest slice of its file group: its completion, or that of a restore that brought it back.';
COMMENT ON COLUMN chronolake.file.superseded_at IS 'From when it was not any more; none while it is.';
COMMENT ON COLUMN chronolake.file.withdrawn_at IS 'When a restore undid the instant that wrote it.';

ALTER TABLE chronolake.replaced_group ADD COLUMN withdrawn_at timestamptz;
COMMENT ON COLUMN chronolake.replaced_group.withdrawn_at IS 'When a restore undid the instant that replaced it.';

-- Who reads the past must find what had completed then, undone since or not.
ALTER TABLE chronolake.instant ADD COLUMN undone_completion_time timestamptz;
UPDATE chronolake.instant i
SET undone_completion_time = e.time
FROM chronolake.event e
WHERE i.state = 'rolled_back'
    AND e.table_id = i.table_id AND e.instant = i.requested_time AND e.type = 'InstantCompleted';
CREATE INDEX instant_undone ON chronolake.instant (table_id, undone_completion_time)
    WHERE undone_completion_time IS NOT NULL;
COMMENT ON COLUMN chronolake.instant.undone_completion_time IS
    'When an instant had completed that a restore undid since, or a savepoint that was released.';

-- A restore is told by what it undid, below; what it brought back was there before.
CREATE OR REPLACE VIEW chronolake.audit_files AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    changed.table_id,
    changed.requested_time,
    chronolake.instant_time(changed.requested_time, c.tick_us) AS requested_digits,
    changed.completion_time,
    chronolake.instant_time(changed.completion_time, c.tick_us) AS completion_digits,
    changed.change,
    changed.partition_path,
    changed.file_id,
    changed.file_name,
    changed.kind,
    changed.size_bytes,
    changed.records
FROM (
    SELECT
        e.table_id, e.instant AS requested_time, e.time AS completion_time, 'added' AS change, w.partition_path,
        w.file_id, w.file_name, w.kind, w.size_bytes, w.records
    FROM chronolake.event e
    JOIN chronolake.write_stat w ON w.table_id = e.table_id AND w.version = e.version
    WHERE e.type = 'InstantCompleted'
    UNION ALL
    SELECT
        i.table_id, i.requested_time, i.completion_time, 'removed', f.partition_path, f.file_id, f.file_name, f.kind,
        f.size_bytes, f.records
    FROM chronolake.instant i
    JOIN chronolake.file f ON f.table_id = i.table_id AND f.superseded_at = i.completion_time
    WHERE i.action <> 'restore'
    UNION ALL
    SELECT
        undone.table_id, undo.requested_time, undo.completion_time, 'removed', w.partition_path, w.file_id,
        w.file_name, w.kind, w.size_bytes, w.records
    FROM chronolake.instant undo
    JOIN chronolake.instant undone ON undone.table_id = undo.table_id AND undone.rolled_back_by = undo.requested_time
    JOIN chronolake.event e
        ON e.table_id = undone.table_id AND e.instant = undone.requested_time AND e.type = 'InstantCompleted'
    JOIN chronolake.write_stat w ON w.table_id = e.table_id AND w.version = e.version
    WHERE undo.action = 'restore'
) AS changed
JOIN chronolake.lake_table t ON t.table_id = changed.table_id
JOIN chronolake.clock c ON c.table_id = changed.table_id;

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
        live.files,
        live.size_bytes,
        live.records
    FROM chronolake.lake_table t
    JOIN chronolake.clock c ON c.table_id = t.table_id
    LEFT JOIN LATERAL (
        SELECT done.requested_time, done.completion_time
        FROM (
            (
                SELECT i.requested_time, i.completion_time
                FROM chronolake.instant i
                WHERE i.table_id = t.table_id AND i.completion_time <= at
                ORDER BY i.completion_time DESC
                LIMIT 1
            )
            UNION ALL
            (
                SELECT i.requested_time, i.undone_completion_time
                FROM chronolake.instant i
                WHERE i.table_id = t.table_id AND i.undone_completion_time <= at
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
            coalesce(sum(f.size_bytes), 0) AS size_bytes,
            coalesce(sum(f.records) FILTER (WHERE f.kind = 'base'), 0) AS records
        FROM chronolake.file f
        WHERE f.table_id = t.table_id
            AND f.live_from <= at
            AND (f.superseded_at IS NULL OR f.superseded_at > at)
    ) AS live
    WHERE t.created_at <= at AND (t.dropped_at IS NULL OR t.dropped_at > at)
    ORDER BY 1, t.created_at;
END;
