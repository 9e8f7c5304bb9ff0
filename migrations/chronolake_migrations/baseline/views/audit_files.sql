-- The files that an instant added are read from the log, because a restore changes the projection. The files that a
-- restore removed are those of the instants that it undid. Files that it brought back are not listed as added.
CREATE VIEW chronolake.audit_files AS
WITH added AS NOT MATERIALIZED (
    SELECT
        e.table_id, e.instant, e.time, w.partition_path, w.file_id, w.file_name, w.kind, w.size_bytes, w.records
    FROM chronolake.event e
    CROSS JOIN LATERAL (
        SELECT e.version
        UNION ALL
        SELECT staged.version::bigint
        FROM json_array_elements_text(e.payload -> 'staged') AS staged (version)
    ) AS written
    JOIN chronolake.write_stat w ON w.table_id = e.table_id AND w.version = written.version
    WHERE e.type = 'InstantCompleted'
)
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
        a.table_id, a.instant AS requested_time, a.time AS completion_time, 'added' AS change, a.partition_path,
        a.file_id, a.file_name, a.kind, a.size_bytes, a.records
    FROM added a
    UNION ALL
    SELECT
        i.table_id, i.requested_time, i.completion_time, 'removed', f.partition_path, f.file_id, f.file_name, f.kind,
        f.size_bytes, f.records
    FROM chronolake.instant i
    JOIN chronolake.file f ON f.table_id = i.table_id AND f.superseded_at = i.completion_time
    LEFT JOIN chronolake.first_event b ON b.table_id = i.table_id
    -- Rows of earlier instants, and of files that they removed, may have left.
    WHERE i.action <> 'restore' AND i.requested_time >= coalesce(b.instants_from, '-infinity')
    UNION ALL
    SELECT
        undone.table_id, undo.requested_time, undo.completion_time, 'removed', a.partition_path, a.file_id,
        a.file_name, a.kind, a.size_bytes, a.records
    FROM chronolake.instant undo
    JOIN chronolake.instant undone ON undone.table_id = undo.table_id AND undone.rolled_back_by = undo.requested_time
    JOIN added a ON a.table_id = undone.table_id AND a.instant = undone.requested_time
    WHERE undo.action = 'restore'
) AS changed
JOIN chronolake.lake_table t ON t.table_id = changed.table_id
JOIN chronolake.clock c ON c.table_id = changed.table_id;

COMMENT ON VIEW chronolake.audit_files IS
    'The files that each completed instant added to the latest slices of its table, and those that it removed.';
