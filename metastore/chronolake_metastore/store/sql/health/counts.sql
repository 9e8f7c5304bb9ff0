-- Of some tables: the log files of the latest slices, and the plans that are not completed.
SELECT
    t.table_id,
    (
        SELECT count(*)
        FROM file f
        WHERE f.table_id = t.table_id AND f.superseded_at IS NULL AND f.kind = 'log'
            -- Other tables have none, and are not searched.
            AND t.definition ->> 'type' = 'merge_on_read'
    ),
    (
        SELECT count(*)
        FROM instant i
        WHERE i.table_id = t.table_id AND i.state IN ('requested', 'inflight') AND i.plan IS NOT NULL
    )
FROM lake_table t
WHERE t.table_id = ANY (%(table_ids)s::uuid[])
