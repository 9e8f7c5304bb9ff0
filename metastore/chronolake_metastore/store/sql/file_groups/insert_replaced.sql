-- Insert the file groups that instants replaced, which are entries of the events that complete the instants.
INSERT INTO replaced_group (table_id, partition_path, file_id, requested_time, replaced_at)
SELECT replaced.table_id, e.partition_path, e.name, e.instant, moment(replaced.replaced_at)
FROM unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[], %(replaced_at)s::bigint[])
    AS replaced (table_id, requested_time, replaced_at)
CROSS JOIN LATERAL (
    SELECT *
    FROM event_entry n
    WHERE n.table_id = replaced.table_id
        AND n.instant = moment(replaced.requested_time)
        AND n.list = 'replaced-file-groups'
    OFFSET 0
) AS e
