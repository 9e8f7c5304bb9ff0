-- The file groups that changed in a range of times, each with its base files in a state and its parent, in order. A group
-- without such a file has a row without one; so has each group, if there are as many as the limit. If no group has
-- changed, there is one row without a group. The first column is the time of complete_from.sql.
WITH changed AS MATERIALIZED ({changed_groups})
SELECT
    complete.since,
    named.partition_path, named.file_id, f.file_name, f.size_bytes, f.records,
    micros(f.requested_time), micros(f.completion_time),
    f.schema_version, f.has_field_ids, f.column_stats::text,
    ({is_in_parent}) AS in_parent,
    ({is_in_state}) AS in_state
FROM (SELECT ({complete_from})) AS complete (since)
LEFT JOIN changed AS named ON true
LEFT JOIN LATERAL ({periods_of}) AS f ON (SELECT count(*) FROM changed) < %(groups)s
ORDER BY named.partition_path, named.file_id, f.file_name
LIMIT %(rows)s
