-- The concurrent instants of the named file groups: those that wrote the last file of each kind in the latest slice,
-- those that replaced a group, and pending ones with the group in their plan. OFFSET 0 makes the planner look them up
-- group by group: it would read the whole table while that grows faster than its statistics are collected. The order of
-- the live files makes it choose the index of the live files. A live file whose instant has left the database shows that
-- its group exists; the action is the usual one of the table's writers.
WITH named AS MATERIALIZED (
    SELECT t.table_id, t.usual_action, n.partition_path, n.file_id
    FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(partition_paths)s::text[], %(file_ids)s::text[])
        AS n (namespace, name, partition_path, file_id)
    CROSS JOIN LATERAL (
        SELECT
            live.table_id,
            CASE live.definition ->> 'type' WHEN 'merge_on_read' THEN 'deltacommit' ELSE 'commit' END AS usual_action
        FROM lake_table live
        WHERE live.namespace = n.namespace AND live.name = n.name AND live.dropped_at IS NULL
        OFFSET 0
    ) AS t
)
(
    SELECT DISTINCT ON (
            f.table_id, f.partition_path, f.file_id, f.kind,
            coalesce(i.operation IN ('compact', 'log_compact'), false)
        )
        f.table_id, f.partition_path, f.file_id, f.kind, coalesce(i.action, n.usual_action),
        coalesce(i.operation, 'unknown'), coalesce(i.state, 'completed'), micros(f.requested_time),
        micros(f.completion_time), NULL::bigint
    FROM named n
    CROSS JOIN LATERAL (
        SELECT *
        FROM file f
        WHERE (f.table_id, f.partition_path, f.file_id) = (n.table_id, n.partition_path, n.file_id)
            AND f.superseded_at IS NULL
        ORDER BY f.completion_time
        OFFSET 0
    ) AS f
    LEFT JOIN LATERAL (
        SELECT * FROM instant i WHERE (i.table_id, i.requested_time) = (f.table_id, f.requested_time) OFFSET 0
    ) AS i ON true
    ORDER BY
        f.table_id, f.partition_path, f.file_id, f.kind, coalesce(i.operation IN ('compact', 'log_compact'), false),
        f.completion_time DESC
)
UNION ALL
SELECT
    r.table_id, r.partition_path, r.file_id, 'replaced', i.action, i.operation, i.state, micros(r.requested_time),
    micros(r.replaced_at), NULL
FROM named n
CROSS JOIN LATERAL (
    SELECT *
    FROM replaced_group r
    WHERE (r.table_id, r.partition_path, r.file_id) = (n.table_id, n.partition_path, n.file_id)
        AND r.withdrawn_at IS NULL
    OFFSET 0
) AS r
CROSS JOIN LATERAL (
    SELECT * FROM instant i WHERE (i.table_id, i.requested_time) = (r.table_id, r.requested_time) OFFSET 0
) AS i
UNION ALL
SELECT
    p.table_id, p.partition_path, p.file_id, 'planned', i.action, i.operation, i.state, micros(p.requested_time),
    NULL, micros(i.lease_expires_at)
FROM named n
CROSS JOIN LATERAL (
    SELECT *
    FROM planned_group p
    WHERE (p.table_id, p.partition_path, p.file_id) = (n.table_id, n.partition_path, n.file_id)
    OFFSET 0
) AS p
CROSS JOIN LATERAL (
    SELECT * FROM instant i WHERE (i.table_id, i.requested_time) = (p.table_id, p.requested_time) OFFSET 0
) AS i
