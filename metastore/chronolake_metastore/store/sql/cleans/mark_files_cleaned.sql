-- Mark the files in the plans of cleans, in all periods of each file. No read needs their column stats, which are large. The times are those in the names: that of a log file
-- of table version 6 is the time of its base file, before the instant that published it.
UPDATE file f
SET cleaned_by = moment(named.cleaned_by), column_stats = NULL
FROM unnest(
    %(table_id)s::uuid[], %(cleaned_by)s::bigint[], %(partition_path)s::text[], %(file_id)s::text[],
    %(requested_time)s::bigint[], %(file_name)s::text[]
) AS named (table_id, cleaned_by, partition_path, file_id, requested_time, file_name)
WHERE f.table_id = named.table_id
    AND f.partition_path = named.partition_path
    AND f.file_id = named.file_id
    AND f.requested_time >= moment(named.requested_time)
    AND f.file_name = named.file_name
