-- Insert the deleted files, and delete their markers: a file that is not in storage needs no marker. OFFSET 0 makes the
-- planner look markers up name by name, because the table grows faster than its statistics are collected.
WITH deleted AS MATERIALIZED (
    SELECT n.ordinal - 1 AS ordinal, n.partition_path, n.file_name
    FROM unnest(%(partition_paths)s::text[], %(file_names)s::text[])
        WITH ORDINALITY AS n (partition_path, file_name, ordinal)
),
unmarked AS (
    DELETE FROM marker
    WHERE ctid = ANY (
        ARRAY(
            SELECT named.place
            FROM deleted d
            CROSS JOIN LATERAL (
                SELECT m.ctid AS place
                FROM marker m
                WHERE m.table_id = %(table_id)s::uuid
                    AND m.requested_time = moment(%(requested_time)s)
                    AND m.partition_path = d.partition_path
                    AND m.file_name = d.file_name
                OFFSET 0
            ) AS named
        )
    )
)
INSERT INTO deleted_file (table_id, version, ordinal, requested_time, partition_path, file_name)
SELECT %(table_id)s::uuid, %(version)s::bigint, d.ordinal, moment(%(requested_time)s), d.partition_path, d.file_name
FROM deleted d
