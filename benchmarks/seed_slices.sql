-- A table of so many partitions of 1,000 live slices, with so many older versions behind each twentieth of them: the files
-- and the instants that wrote them, as far as a reader looks at them. Version k was written in the k-th hour. Each file group
-- of a partition has a thousandth of the ids, whose column has the field id 1.
INSERT INTO chronolake.file (
    table_id, version, ordinal, partition_path, file_id, requested_time, file_name, kind, size_bytes, records,
    completion_time, live_from, superseded_at, column_stats, schema_version
)
SELECT
    t.table_id, version + 2, 1000 * (partition - 1) + bucket, 'day=' || (date '2024-01-01' + partition - 1)::text, file_id, requested_time,
    file_id || '_0-0-0_' || to_char(requested_time, 'YYYYMMDDHH24MISSMS') || '.parquet', 'base', 120000000 + bucket,
    1000000 + bucket, requested_time + interval '20 ms', requested_time + interval '20 ms',
    CASE WHEN version < versions THEN requested_time + interval '1 hour' + interval '20 ms' END,
    jsonb_build_object('1', jsonb_build_array(bucket * 1000, bucket * 1000 + 999, 0)), 1
FROM chronolake.lake_table t
CROSS JOIN generate_series(1, %(partitions)s) AS partition
CROSS JOIN generate_series(0, 999) AS bucket
CROSS JOIN LATERAL (
    SELECT
        lpad(bucket::text, 8, '0') || '-0000-0000-0000-000000000000-0' AS file_id,
        CASE WHEN bucket %% 20 = 0 THEN %(versions)s ELSE 0 END AS versions
) AS file_group
CROSS JOIN LATERAL generate_series(0, versions) AS version
CROSS JOIN LATERAL (SELECT timestamptz '2026-01-01 00:00+00' + version * interval '1 hour' AS requested_time) AS written
WHERE t.namespace = 'bench' AND t.name = %(name)s
ORDER BY version, partition, bucket;

INSERT INTO chronolake.instant (
    table_id, requested_time, completion_time, action, operation, state, writer, lease_seconds, extra_metadata, version
)
SELECT
    t.table_id, requested_time, requested_time + interval '20 ms', 'commit', 'upsert', 'completed', 'bench', 60, '{}',
    version + 2
FROM chronolake.lake_table t
CROSS JOIN generate_series(0, %(versions)s) AS version
CROSS JOIN LATERAL (SELECT timestamptz '2026-01-01 00:00+00' + version * interval '1 hour' AS requested_time) AS written
WHERE t.namespace = 'bench' AND t.name = %(name)s;
