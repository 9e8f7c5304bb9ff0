-- Views over the archived log, for DuckDB, with the names of PostgreSQL's. The views archived_... read the files. In DuckDB
-- the operators -> and ->> bind less than others.
CREATE SCHEMA IF NOT EXISTS chronolake;
CREATE TYPE jsonb AS json;
CREATE OR REPLACE MACRO convert_from(content, encoding) AS decode(content);
CREATE OR REPLACE MACRO chronolake.instant_time(moment, tick_us) AS
    CASE tick_us
        WHEN 1 THEN strftime(moment AT TIME ZONE 'UTC', '%Y%m%d%H%M%S%f')
        ELSE strftime(moment AT TIME ZONE 'UTC', '%Y%m%d%H%M%S%g')
    END;

{files}

CREATE OR REPLACE VIEW chronolake.outcome AS
SELECT
    coalesce(request_id_uuid::varchar, request_id) AS request_id, fingerprint, table_id, version, code, result, dialect,
    answer_digest, recorded_at, command, actor, address, chain_id, number
FROM chronolake.archived_outcome;

CREATE OR REPLACE VIEW chronolake.event AS
SELECT
    e.position, e.transaction_id, e.table_id, e.version, e.type, e.instant, e.time, e.actor,
    coalesce(e.request_id_uuid::varchar, e.request_id, o.request_id) AS request_id, e.payload::json AS payload, e.answers,
    strlen(e.payload) AS payload_bytes
FROM chronolake.archived_event e
LEFT JOIN chronolake.outcome o ON o.chain_id = e.table_id AND o.number = e.answers + 1;

CREATE OR REPLACE VIEW chronolake.refusal AS
SELECT
    r.position, r.transaction_id, o.request_id, r.refused_at, r.actor, r.address, r.command, r.table_name, r.table_id,
    r.version, r.instant, r.code, r.detail, r.context::json AS context
FROM chronolake.archived_refusal r
JOIN chronolake.outcome o ON o.chain_id = r.chain_id AND o.number = r.number;

CREATE OR REPLACE VIEW chronolake.event_entry AS
SELECT table_id, instant, list, ordinal, version, partition_path, name FROM chronolake.archived_event_entry;

CREATE OR REPLACE VIEW chronolake.write_stat AS
SELECT
    table_id, version, ordinal, partition_path, file_id, file_name, kind, size_bytes, records, inserts, updates, deletes,
    column_stats::json AS column_stats, has_field_ids
FROM chronolake.archived_write_stat;

CREATE OR REPLACE VIEW chronolake.deleted_file AS
SELECT table_id, version, ordinal, requested_time, partition_path, file_name FROM chronolake.archived_deleted_file;

-- The last name of each table, and the tick of its clock. The catalog has no name.
CREATE OR REPLACE VIEW chronolake.archived_log AS
SELECT
    table_id,
    arg_max(coalesce(payload ->> 'new_name', payload -> 'definition' ->> 'name'), version)
        FILTER (type = 'TableCreated' OR (type = 'TableAltered' AND (payload ->> 'new_name') IS NOT NULL)) AS table_name,
    CASE max(payload -> 'definition' ->> 'tick') FILTER (type = 'TableCreated') WHEN '1us' THEN 1 ELSE 1000 END AS tick_us
FROM chronolake.event
GROUP BY table_id;

CREATE OR REPLACE VIEW chronolake.audit_history AS
SELECT
    l.table_name, e.table_id, e.version, e.type, e.time, chronolake.instant_time(e.time, l.tick_us) AS time_digits,
    e.instant AS requested_time, chronolake.instant_time(e.instant, l.tick_us) AS requested_digits, e.actor, o.address,
    e.request_id, e.payload, e.transaction_id, e.position
FROM chronolake.event e
JOIN chronolake.archived_log l ON l.table_id = e.table_id
LEFT JOIN chronolake.outcome o ON o.request_id = e.request_id;

CREATE OR REPLACE VIEW chronolake.audit_commands AS
SELECT
    o.recorded_at,
    coalesce(o.actor, e.actor) AS actor,
    o.address,
    o.command,
    coalesce(l.table_name, r.table_name) AS table_name,
    o.table_id,
    o.version,
    coalesce(e.instant, r.instant) AS requested_time,
    chronolake.instant_time(coalesce(e.instant, r.instant), coalesce(l.tick_us, 1000)) AS requested_digits,
    e.type AS event_type,
    o.code,
    o.request_id
FROM chronolake.outcome o
LEFT JOIN chronolake.event e ON e.table_id = o.table_id AND e.version = o.version AND e.request_id = o.request_id
LEFT JOIN chronolake.refusal r ON r.request_id = o.request_id
LEFT JOIN chronolake.archived_log l ON l.table_id = o.table_id;

CREATE OR REPLACE VIEW chronolake.audit_deletions AS
SELECT
    l.table_name,
    d.table_id,
    d.requested_time,
    chronolake.instant_time(d.requested_time, l.tick_us) AS requested_digits,
    CASE WHEN e.instant <> d.requested_time THEN e.instant END AS rollback_requested_time,
    CASE WHEN e.instant <> d.requested_time THEN chronolake.instant_time(e.instant, l.tick_us) END AS rollback_digits,
    d.partition_path,
    d.file_name,
    e.time AS reported_at,
    e.actor,
    e.request_id,
    d.version
FROM chronolake.deleted_file d
JOIN chronolake.event e ON e.table_id = d.table_id AND e.version = d.version
JOIN chronolake.archived_log l ON l.table_id = d.table_id;

CREATE OR REPLACE VIEW chronolake.audit_tables AS
SELECT
    e.table_id,
    e.version,
    e.type,
    coalesce(e.payload ->> 'new_name', e.payload ->> 'name', e.payload -> 'definition' ->> 'name') AS table_name,
    CASE WHEN (e.payload ->> 'new_name') IS NOT NULL THEN e.payload ->> 'name' END AS renamed_from,
    coalesce(e.payload -> 'set', e.payload -> 'definition' -> 'properties') AS properties_set,
    e.payload -> 'unset' AS properties_unset,
    e.time,
    chronolake.instant_time(e.time, l.tick_us) AS time_digits,
    lead(e.time) OVER (PARTITION BY e.table_id ORDER BY e.version) AS changed_again_at,
    e.actor,
    e.request_id
FROM chronolake.event e
JOIN chronolake.archived_log l ON l.table_id = e.table_id
WHERE e.type IN ('TableCreated', 'TableAltered', 'TableDropped');
