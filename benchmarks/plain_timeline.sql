-- The baseline: what one would write without Chronolake. A table of the same form as ours for each thing that a
-- cycle leaves behind, one function call and one transaction per step, and a row lock that makes the order.
CREATE SCHEMA plain;

CREATE TABLE plain.clock (LIKE chronolake.clock INCLUDING ALL);
CREATE TABLE plain.event (LIKE chronolake.event INCLUDING ALL);
CREATE TABLE plain.outcome (LIKE chronolake.outcome INCLUDING ALL);
-- Without Chronolake answers are not chained: the baseline has neither the columns nor their index.
ALTER TABLE plain.outcome DROP COLUMN chain_id, DROP COLUMN number, DROP COLUMN hash;
CREATE TABLE plain.instant (LIKE chronolake.instant INCLUDING ALL);
CREATE TABLE plain.write_stat (LIKE chronolake.write_stat INCLUDING ALL);
CREATE TABLE plain.file (LIKE chronolake.file INCLUDING ALL);

INSERT INTO plain.clock (table_id, tick_us, last_time, version, hash)
SELECT lpad(to_hex(number), 32, '0')::uuid, 1000, 'epoch', 0, ''
FROM generate_series(1, 1000) AS number;

-- Lock the table's clock, append an event to its chain, and give the time.
CREATE FUNCTION plain.append(id uuid, type text, of_instant timestamptz, key text, payload jsonb)
    RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    head plain.clock;
    now_at timestamptz;
    digest bytea;
BEGIN
    SELECT * INTO head FROM plain.clock WHERE table_id = id FOR UPDATE;
    now_at := greatest(head.last_time + interval '1 ms', date_trunc('milliseconds', clock_timestamp()));
    digest := sha256(convert_to(
        head.hash::text || id || (head.version + 1) || type || now_at || key || payload::text, 'UTF8'));
    INSERT INTO plain.event (table_id, version, type, instant, time, actor, request_id, payload, payload_bytes, previous_hash, hash)
    VALUES (id, head.version + 1, type, coalesce(of_instant, now_at), now_at, 'bench', key, payload, octet_length(payload::text), head.hash, digest);
    UPDATE plain.clock SET last_time = now_at, version = head.version + 1, hash = digest WHERE table_id = id;
    INSERT INTO plain.outcome (request_id, fingerprint, table_id, version, result)
    VALUES (key, '\x00', id, head.version + 1, convert_to(payload::text, 'UTF8'));
    RETURN now_at;
END
$$;

CREATE FUNCTION plain.begin(id uuid, key text) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    requested timestamptz;
BEGIN
    requested := plain.append(id, 'InstantRequested', NULL, key, '{"action": "commit", "operation": "upsert"}');
    INSERT INTO plain.instant (table_id, requested_time, action, operation, state, writer, lease_seconds,
        lease_expires_at, extra_metadata, version)
    VALUES (id, requested, 'commit', 'upsert', 'inflight', 'bench', 60, requested + interval '60 s', '{}', 1);
    RETURN requested;
END
$$;

CREATE FUNCTION plain.complete(id uuid, requested timestamptz, key text, file_ids text[]) RETURNS timestamptz
    LANGUAGE plpgsql AS $$
DECLARE
    completed timestamptz;
    number bigint;
BEGIN
    completed := plain.append(id, 'InstantCompleted', requested, key, '{"files": 3}');
    UPDATE plain.instant SET state = 'completed', completion_time = completed, lease_expires_at = NULL
    WHERE table_id = id AND requested_time = requested AND state = 'inflight';
    SELECT version INTO number FROM plain.clock WHERE table_id = id;
    INSERT INTO plain.write_stat (table_id, version, ordinal, partition_path, file_id, file_name, kind, size_bytes,
        records, inserts, updates, deletes)
    SELECT id, number, ordinal, '', file_id, file_id || '_' || requested, 'base', 1000, 10, 10, 0, 0
    FROM unnest(file_ids) WITH ORDINALITY AS named (file_id, ordinal);
    INSERT INTO plain.file (table_id, version, ordinal, partition_path, file_id, requested_time, file_name, kind,
        size_bytes, records, completion_time, live_from, schema_version)
    SELECT id, number, ordinal, '', file_id, requested, file_id || '_' || requested, 'base', 1000, 10, completed,
        completed, 1
    FROM unnest(file_ids) WITH ORDINALITY AS named (file_id, ordinal);
    UPDATE plain.file SET superseded_at = completed
    WHERE table_id = id AND partition_path = '' AND file_id = ANY (file_ids) AND requested_time < requested
        AND superseded_at IS NULL;
    RETURN completed;
END
$$;

-- The other way to a true time, as Hudi's time generator has it: under a lock, read the time, and wait out the skew that
-- clocks may have before anybody else may read it.
CREATE FUNCTION plain.begin_and_wait(id uuid, key text, skew interval) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    requested timestamptz;
BEGIN
    requested := plain.begin(id, key);
    PERFORM pg_sleep_for(skew);
    RETURN requested;
END
$$;
