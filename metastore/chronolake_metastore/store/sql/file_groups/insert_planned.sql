-- Insert the file groups of plans, which are entries of the events that request the instants. OFFSET 0 makes the planner
-- look each plan up by itself.
INSERT INTO planned_group (table_id, partition_path, file_id, requested_time, is_service)
SELECT planned.table_id, e.partition_path, e.name, e.instant, planned.is_service
FROM unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[], %(is_service)s::boolean[])
    AS planned (table_id, requested_time, is_service)
CROSS JOIN LATERAL (
    SELECT *
    FROM event_entry n
    WHERE n.table_id = planned.table_id
        AND n.instant = moment(planned.requested_time)
        AND n.list = 'plan-file-groups'
    OFFSET 0
) AS e
