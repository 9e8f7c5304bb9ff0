-- The file groups of plans: the rows beside the events that request them. OFFSET 0 has each plan looked up by itself.
INSERT INTO planned_group (table_id, partition_path, file_id, requested_time)
SELECT planned.table_id, e.partition_path, e.name, e.instant
FROM unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS planned (table_id, requested_time)
CROSS JOIN LATERAL (
    SELECT *
    FROM event_entry n
    WHERE n.table_id = planned.table_id
        AND n.instant = moment(planned.requested_time)
        AND n.list = 'plan-file-groups'
    OFFSET 0
) AS e
