-- A table of many file groups, a hundred in each partition: base files of 1 MB, and log files of 1,000 bytes. The
-- instants are those that wrote them, as far as planning looks at them.
INSERT INTO chronolake.file (
    table_id, version, ordinal, partition_path, file_id, requested_time, file_name, kind, size_bytes, records,
    completion_time, live_from, schema_version
)
SELECT
    t.table_id, written + 2, number, 'day=' || (date '2024-01-01' + number / 100)::text, file_id, requested_time,
    file_id || '_' || written, CASE WHEN written = 0 THEN 'base' ELSE 'log' END,
    CASE WHEN written = 0 THEN 1000000 ELSE 1000 END, 10, requested_time + interval '20 ms',
    requested_time + interval '20 ms', 1
FROM chronolake.lake_table t
CROSS JOIN generate_series(0, %(groups)s - 1) AS number
CROSS JOIN LATERAL (SELECT lpad(number::text, 8, '0') || '-0000-0000-0000-000000000000-0' AS file_id) AS named
CROSS JOIN generate_series(0, %(logs)s) AS written
CROSS JOIN LATERAL (SELECT timestamptz '2026-01-01 00:00+00' + written * interval '1 hour' AS requested_time) AS at
WHERE t.namespace = 'bench' AND t.name = %(name)s;

INSERT INTO chronolake.instant (
    table_id, requested_time, completion_time, action, operation, state, writer, lease_seconds, extra_metadata, version
)
SELECT
    t.table_id, requested_time, requested_time + interval '20 ms',
    CASE WHEN %(logs)s = 0 THEN 'commit' ELSE 'deltacommit' END, 'upsert', 'completed', 'bench', 60, '{}', written + 2
FROM chronolake.lake_table t
CROSS JOIN generate_series(0, 4) AS written
CROSS JOIN LATERAL (SELECT timestamptz '2026-01-01 00:00+00' + written * interval '1 hour' AS requested_time) AS at
WHERE t.namespace = 'bench' AND t.name = %(name)s;
