-- The last file group of each bucket that was replaced as of a completion time: the one with the largest file id in the
-- range of the bucket's file ids. Replacements that a restore had undone by then do not count.
SELECT named.number, last_replaced.file_id
FROM unnest(%(partition_paths)s::text[], %(firsts)s::text[], %(lasts)s::text[])
    WITH ORDINALITY AS named (partition_path, first, last, number)
CROSS JOIN LATERAL (
    SELECT r.file_id
    FROM replaced_group r
    WHERE r.table_id = %(table_id)s
        AND r.partition_path = named.partition_path
        AND r.file_id BETWEEN named.first AND named.last
        AND r.replaced_at <= moment(%(as_of)s)
        AND (r.withdrawn_at IS NULL OR r.withdrawn_at > moment(%(as_of)s))
    ORDER BY r.file_id DESC
    LIMIT 1
) AS last_replaced
