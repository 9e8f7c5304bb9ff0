-- A table's past, written in bulk: count instants that were begun and completed, one file each, over the file groups that
-- the load writes to. Everything that a command meets is there, in its usual size: events, outcomes under random keys,
-- instants, files that supersede each other, the clock. The hash chain is none: verify would say so.
CREATE TEMPORARY TABLE past ON COMMIT DROP AS
SELECT
    t.table_id,
    k,
    2 * k AS begun,
    2 * k + 1 AS completed,
    now() - interval '1 day' + k * interval '50 ms' AS requested_time,
    now() - interval '1 day' + k * interval '50 ms' + interval '20 ms' AS completion_time,
    now() - interval '1 day' + (k + cardinality(%(file_ids)s::text[])) * interval '50 ms' + interval '20 ms' AS next_time,
    k + cardinality(%(file_ids)s::text[]) <= %(count)s AS is_superseded,
    (%(file_ids)s::text[])[1 + k %% cardinality(%(file_ids)s::text[])] AS file_id
FROM chronolake.lake_table t
CROSS JOIN generate_series(1, %(count)s) AS k
WHERE t.namespace = 'bench' AND t.name = %(name)s;

INSERT INTO chronolake.event (table_id, version, type, instant, time, actor, request_id, payload, payload_bytes, previous_hash, hash)
SELECT
    table_id, version, type, requested_time, time, 'bench', md5(version::text || table_id), payload::json, octet_length(payload),
    decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex')
FROM past
CROSS JOIN LATERAL (
    VALUES
        (
            begun, requested_time, 'InstantRequested',
            '{"v": 1, "state": "inflight", "action": "commit", "writer": "bench", "operation": "upsert", "lease_seconds": 60}'
        ),
        (completed, completion_time, 'InstantCompleted', '{"v": 1, "summary": {"files": 1}, "extra_metadata": {}}')
) AS event (version, time, type, payload)
ORDER BY version;

INSERT INTO chronolake.outcome (
    request_id, fingerprint, table_id, version, result, recorded_at, command, actor, chain_id, number, hash
)
SELECT
    md5(version::text || table_id), decode(repeat('00', 16), 'hex'), table_id, version,
    decode(repeat('20', 300), 'hex'), requested_time, 'BeginInstant', 'bench',
    table_id, version, decode(repeat('00', 32), 'hex')
FROM past
CROSS JOIN LATERAL (VALUES (begun), (completed)) AS answered (version);

UPDATE chronolake.answer_chain a
SET number = past.last
FROM (SELECT table_id, max(completed) AS last FROM past GROUP BY table_id) AS past
WHERE a.chain_id = past.table_id;

INSERT INTO chronolake.instant (
    table_id, requested_time, completion_time, action, operation, state, writer, lease_seconds, summary, extra_metadata,
    version
)
SELECT
    table_id, requested_time, completion_time, 'commit', 'upsert', 'completed', 'bench', 60,
    '{"files": 1, "size_bytes": 1000, "records": 10, "inserts": 10, "updates": 0, "deletes": 0}', '{}', completed
FROM past;

INSERT INTO chronolake.write_stat (
    table_id, version, ordinal, partition_path, file_id, file_name, kind, size_bytes, records, inserts, updates, deletes
)
SELECT table_id, completed, 0, '', file_id, file_id || '_0-0-0_' || k || '.parquet', 'base', 1000, 10, 10, 0, 0
FROM past;

INSERT INTO chronolake.file (
    table_id, version, ordinal, partition_path, file_id, requested_time, file_name, kind, size_bytes, records,
    completion_time, live_from, superseded_at, schema_version
)
SELECT
    table_id, completed, 0, '', file_id, requested_time, file_id || '_0-0-0_' || k || '.parquet', 'base', 1000, 10, completion_time,
    completion_time, CASE WHEN is_superseded THEN next_time END, 1
FROM past;

UPDATE chronolake.clock
SET version = (SELECT max(completed) FROM past), last_time = (SELECT max(completion_time) FROM past)
WHERE table_id = (SELECT table_id FROM past LIMIT 1);
