-- The files in the slices of file groups as of a completion time, with the number of their prefix. A prefix is the start
-- of a file id, of a fixed length: a bucket's, or the whole file id. The query has two parts, each with its own index: the
-- files that are still live, and those that were superseded later. So its cost depends on the file groups that are named
-- and on what completed since, not on the size of the table or its history. OFFSET 0 and MATERIALIZED make the planner
-- choose these indexes also without statistics. The full join makes it hash, for a nested loop would compare each file
-- with each name.
WITH named AS MATERIALIZED (
    SELECT *
    FROM unnest(%(partition_paths)s::text[], %(prefixes)s::text[])
        WITH ORDINALITY AS names (partition_path, prefix, number)
)
SELECT f.number, {file}
FROM (
    SELECT named.number, live.*
    FROM named
    CROSS JOIN LATERAL (
        SELECT *
        FROM file
        WHERE file.table_id = %(table_id)s
            AND file.partition_path = named.partition_path
            AND file.file_id >= named.prefix
            AND file.file_id < named.prefix || '~'
            AND left(file.file_id, %(prefix_length)s) = named.prefix
            AND file.superseded_at IS NULL
            AND file.live_from <= moment(%(as_of)s)
        ORDER BY file.file_id, file.completion_time
        OFFSET 0
    ) AS live
    UNION ALL
    SELECT named.number, ended.*
    FROM (
        SELECT *
        FROM file
        WHERE file.table_id = %(table_id)s
            AND file.superseded_at > moment(%(as_of)s)
            AND file.live_from <= moment(%(as_of)s)
        OFFSET 0
    ) AS ended
    FULL JOIN named
        ON named.partition_path = ended.partition_path AND named.prefix = left(ended.file_id, %(prefix_length)s)
    WHERE coalesce(named.number, 0) > 0 AND coalesce(ended.file_id, '') > ''
) AS f
ORDER BY f.number, f.file_id, f.kind, f.completion_time, f.file_name
