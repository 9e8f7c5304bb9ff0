-- Views over the whole log, for DuckDB, with the names and rows that auditors know from PostgreSQL. The views archived_...
-- read the files of the archive, which end before transaction {end}. The views live_... read PostgreSQL from there on.
-- Written by chronolake-metastore audit duckdb: run it again after archive drop.
{extensions}
-- live
INSTALL postgres;
LOAD postgres;
ATTACH IF NOT EXISTS {database} AS postgresql (TYPE postgres, SCHEMA 'chronolake', READ_ONLY);
-- end of live
CREATE SCHEMA IF NOT EXISTS chronolake;
CREATE TYPE IF NOT EXISTS jsonb AS json;
-- In DuckDB the operators -> and ->> bind less than others.
CREATE OR REPLACE MACRO convert_from(content, encoding) AS decode(content);
CREATE OR REPLACE MACRO jsonb_array_elements(items) AS TABLE SELECT unnest(items::json[]) AS field;
CREATE OR REPLACE MACRO chronolake.instant_time(moment, tick_us) AS
    CASE tick_us
        WHEN 1 THEN strftime(moment::timestamptz AT TIME ZONE 'UTC', '%Y%m%d%H%M%S%f')
        ELSE strftime(moment::timestamptz AT TIME ZONE 'UTC', '%Y%m%d%H%M%S%g')
    END;
CREATE OR REPLACE MACRO chronolake.moment(micros) AS make_timestamptz(micros);
CREATE OR REPLACE MACRO chronolake.moment_of(digits) AS
    strptime(rpad(digits, 20, '0'), '%Y%m%d%H%M%S%f') AT TIME ZONE 'UTC';

{files}

-- The outcomes of the archive are the first ones of each chain.
CREATE OR REPLACE TABLE chronolake.archived_chain AS
SELECT chain_id, max(number) AS number FROM chronolake.archived_outcome GROUP BY chain_id;

-- live
-- Rows leave PostgreSQL after they are archived. This file knows the archive of its time.
CREATE OR REPLACE MACRO chronolake.is_complete() AS (
    SELECT
        CASE
            WHEN coalesce(max(archived_before), 0) <= {end} THEN true
            ELSE error(
                'rows have left PostgreSQL for a part of the archive that these views do not know: run '
                'chronolake-metastore audit duckdb again, and load the views that it writes'
            )
        END
    FROM postgresql.chronolake.archived_era
);

CREATE OR REPLACE VIEW chronolake.live_event AS
SELECT * REPLACE (payload::json AS payload)
FROM postgres_query('postgresql', $$
    SELECT
        position, transaction_id::text::bigint AS transaction_id, table_id, version, type, instant, time, actor, request_id,
        payload::text AS payload, answers, payload_bytes
    FROM chronolake.event
    WHERE transaction_id >= '{end}'
$$)
WHERE chronolake.is_complete();

CREATE OR REPLACE VIEW chronolake.live_event_entry AS
SELECT *
FROM postgres_query('postgresql', $$
    SELECT x.table_id, x.instant, x.list, x.ordinal, x.version, x.partition_path, x.name
    FROM chronolake.event e
    JOIN chronolake.event_entry x ON x.table_id = e.table_id AND x.instant = e.instant AND x.version = e.version
    WHERE e.transaction_id >= '{end}'
$$)
WHERE chronolake.is_complete();

CREATE OR REPLACE VIEW chronolake.live_write_stat AS
SELECT * REPLACE (column_stats::json AS column_stats)
FROM postgres_query('postgresql', $$
    SELECT
        w.table_id, w.version, w.ordinal, w.partition_path, w.file_id, w.file_name, w.kind, w.size_bytes, w.records, w.inserts,
        w.updates, w.deletes, w.column_stats::text AS column_stats, w.has_field_ids
    FROM chronolake.event e
    JOIN chronolake.write_stat w ON w.table_id = e.table_id AND w.version = e.version
    WHERE e.transaction_id >= '{end}'
$$)
WHERE chronolake.is_complete();

CREATE OR REPLACE VIEW chronolake.live_deleted_file AS
SELECT *
FROM postgres_query('postgresql', $$
    SELECT d.table_id, d.version, d.ordinal, d.requested_time, d.partition_path, d.file_name
    FROM chronolake.event e
    JOIN chronolake.deleted_file d ON d.table_id = e.table_id AND d.version = e.version
    WHERE e.transaction_id >= '{end}'
$$)
WHERE chronolake.is_complete();

-- All outcomes of eras that ended before the end of the archive are archived, and others too.
CREATE OR REPLACE VIEW chronolake.live_outcome AS
SELECT o.*
FROM postgres_query('postgresql', $$
    SELECT
        request_id, fingerprint, table_id, version, code, CASE WHEN code IS NOT NULL THEN result END AS result, dialect,
        answer_digest, recorded_at, command, actor, address, chain_id, number
    FROM chronolake.outcome
    WHERE era >= (SELECT max(e.era) FROM chronolake.era e WHERE e.era = 1 OR e.began_in <= '{end}')
$$) o
LEFT JOIN chronolake.archived_chain a ON a.chain_id = o.chain_id
WHERE o.number > coalesce(a.number, 0) AND chronolake.is_complete();

CREATE OR REPLACE VIEW chronolake.live_refusal AS
SELECT r.* REPLACE (r.context::json AS context)
FROM postgres_query('postgresql', $$
    SELECT
        position, transaction_id::text::bigint AS transaction_id, request_id, refused_at, actor, address, command, table_name,
        table_id, version, instant, code, detail, context::text AS context
    FROM chronolake.refusal
    WHERE era >= (SELECT max(e.era) FROM chronolake.era e WHERE e.era = 1 OR e.began_in <= '{end}')
$$) r
SEMI JOIN chronolake.live_outcome o ON o.request_id = r.request_id;

-- These are not in the archive.
CREATE OR REPLACE VIEW chronolake.metastore AS FROM postgresql.chronolake.metastore;
CREATE OR REPLACE VIEW chronolake.base_path AS FROM postgresql.chronolake.base_path;
CREATE OR REPLACE VIEW chronolake.steady_clock AS FROM postgresql.chronolake.steady_clock;
CREATE OR REPLACE VIEW chronolake.clock_jump AS FROM postgresql.chronolake.clock_jump;
CREATE OR REPLACE VIEW chronolake.era AS FROM postgresql.chronolake.era;
CREATE OR REPLACE VIEW chronolake.archived_era AS FROM postgresql.chronolake.archived_era;
CREATE OR REPLACE VIEW chronolake.location AS FROM postgresql.chronolake.location;
CREATE OR REPLACE VIEW chronolake.audit_markers AS FROM postgresql.chronolake.audit_markers;
CREATE OR REPLACE VIEW chronolake.audit_pending AS FROM postgresql.chronolake.audit_pending;
CREATE OR REPLACE VIEW chronolake.audit_streams AS FROM postgresql.chronolake.audit_streams;
CREATE OR REPLACE VIEW chronolake.audit_tokens AS FROM postgresql.chronolake.audit_tokens;
CREATE OR REPLACE VIEW chronolake.audit_grants AS FROM postgresql.chronolake.audit_grants;
CREATE OR REPLACE VIEW chronolake.audit_services AS
SELECT * REPLACE (details::json AS details) FROM postgresql.chronolake.audit_services;
CREATE OR REPLACE MACRO chronolake.tables_as_of(moment) AS TABLE
FROM postgres_query(
    'postgresql',
    concat('SELECT * FROM chronolake.tables_as_of(''', CAST(CAST(moment AS timestamptz) AS varchar), ''')')
);
CREATE OR REPLACE MACRO chronolake.state_at(place) AS TABLE
FROM postgres_query(
    'postgresql',
    concat(
        'SELECT * FROM chronolake.state_at(',
        coalesce('''' || replace(CAST(place AS varchar), '''', '''''') || '''', 'NULL'),
        ')'
    )
);
-- end of live

CREATE OR REPLACE VIEW chronolake.outcome AS
SELECT
    coalesce(request_id_uuid::varchar, request_id) AS request_id, fingerprint, table_id, version, code,
    CASE WHEN code IS NOT NULL THEN result END AS result, dialect, answer_digest, recorded_at, command, actor, address, chain_id, number
FROM chronolake.archived_outcome
-- live
UNION ALL
FROM chronolake.live_outcome
-- end of live
;

CREATE OR REPLACE VIEW chronolake.event AS
SELECT
    e.position, e.transaction_id, e.table_id, e.version, e.type, e.instant, e.time, e.actor,
    coalesce(e.request_id_uuid::varchar, e.request_id, o.request_id_uuid::varchar, o.request_id) AS request_id,
    e.payload::json AS payload, e.answers, strlen(e.payload) AS payload_bytes
FROM chronolake.archived_event e
LEFT JOIN chronolake.archived_outcome o ON o.chain_id = e.table_id AND o.number = e.answers + 1
-- live
UNION ALL
FROM chronolake.live_event
-- end of live
;

CREATE OR REPLACE VIEW chronolake.refusal AS
SELECT
    r.position, r.transaction_id, coalesce(o.request_id_uuid::varchar, o.request_id) AS request_id, r.refused_at, r.actor,
    r.address, r.command, r.table_name, r.table_id, r.version, r.instant, r.code, r.detail, r.context::json AS context
FROM chronolake.archived_refusal r
JOIN chronolake.archived_outcome o ON o.chain_id = r.chain_id AND o.number = r.number
-- live
UNION ALL
FROM chronolake.live_refusal
-- end of live
;

CREATE OR REPLACE VIEW chronolake.event_entry AS
SELECT table_id, instant, list, ordinal, version, partition_path, name FROM chronolake.archived_event_entry
-- live
UNION ALL
FROM chronolake.live_event_entry
-- end of live
;

CREATE OR REPLACE VIEW chronolake.write_stat AS
SELECT
    table_id, version, ordinal, partition_path, file_id, file_name, kind, size_bytes, records, inserts, updates, deletes,
    column_stats::json AS column_stats, has_field_ids
FROM chronolake.archived_write_stat
-- live
UNION ALL
FROM chronolake.live_write_stat
-- end of live
;

CREATE OR REPLACE VIEW chronolake.deleted_file AS
SELECT table_id, version, ordinal, requested_time, partition_path, file_name FROM chronolake.archived_deleted_file
-- live
UNION ALL
FROM chronolake.live_deleted_file
-- end of live
;

-- Events without the commands that they are of: a join with all outcomes costs more than most queries.
CREATE OR REPLACE VIEW chronolake.log_event AS
SELECT table_id, version, type, instant, time, payload::json AS payload FROM chronolake.archived_event
-- live
UNION ALL
SELECT table_id, version, type, instant, time, payload FROM chronolake.live_event
-- end of live
;

-- The tables of the log: their last names, and the ticks of their clocks.
CREATE OR REPLACE VIEW chronolake.log_table AS
SELECT
    table_id,
    arg_max(coalesce(payload ->> 'new_name', payload -> 'definition' ->> 'name'), version)
        FILTER (type = 'TableCreated' OR (payload ->> 'new_name') IS NOT NULL) AS table_name,
    CASE max(payload -> 'definition' ->> 'tick') WHEN '1us' THEN 1 ELSE 1000 END AS tick_us
FROM chronolake.log_event
WHERE type IN ('TableCreated', 'TableAltered')
GROUP BY table_id;

CREATE OR REPLACE VIEW chronolake.clock AS SELECT table_id, tick_us FROM chronolake.log_table;

-- The instants in their present state, as the log has them. An instant that was undone has no completion time.
CREATE OR REPLACE VIEW chronolake.log_instant AS
SELECT
    table_id,
    instant AS requested_time,
    any_value(payload ->> 'action') FILTER (type = 'InstantRequested') AS action,
    any_value(payload ->> 'operation') FILTER (type = 'InstantRequested') AS operation,
    arg_max(payload ->> 'writer', version) FILTER ((payload ->> 'writer') IS NOT NULL) AS writer,
    arg_max(
        CASE type
            WHEN 'InstantRequested' THEN payload ->> 'state'
            WHEN 'InstantInflight' THEN 'inflight'
            WHEN 'InstantReturnedToRequested' THEN 'requested'
            WHEN 'InstantCompleted' THEN 'completed'
            ELSE 'rolled_back'
        END,
        version
    ) FILTER (type <> 'LeaseRenewed') AS state,
    CASE
        WHEN NOT bool_or(type IN ('InstantRolledBack', 'SavepointReleased'))
        THEN max(time) FILTER (type = 'InstantCompleted')
    END AS completion_time
FROM chronolake.log_event
WHERE type IN (
    'InstantRequested', 'InstantInflight', 'InstantReturnedToRequested', 'InstantCompleted', 'InstantRolledBack',
    'SavepointReleased', 'LeaseRenewed'
)
GROUP BY table_id, instant;

CREATE OR REPLACE VIEW chronolake.audit_history AS
SELECT
    l.table_name, e.table_id, e.version, e.type, e.time,
    chronolake.instant_time(e.time, coalesce(l.tick_us, 1000)) AS time_digits, e.instant AS requested_time,
    chronolake.instant_time(e.instant, l.tick_us) AS requested_digits, i.writer, e.actor, o.address, e.request_id, e.payload,
    e.transaction_id, e.position
FROM chronolake.event e
-- The catalog has no name.
LEFT JOIN chronolake.log_table l ON l.table_id = e.table_id
LEFT JOIN chronolake.log_instant i ON i.table_id = e.table_id AND i.requested_time = e.instant
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
LEFT JOIN chronolake.log_table l ON l.table_id = o.table_id;

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
JOIN chronolake.log_table l ON l.table_id = d.table_id;

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
JOIN chronolake.log_table l ON l.table_id = e.table_id
WHERE e.type IN ('TableCreated', 'TableAltered', 'TableDropped');

CREATE OR REPLACE VIEW chronolake.audit_conflicts AS
SELECT
    r.refused_at,
    r.table_name,
    r.table_id,
    r.instant AS loser_requested_time,
    chronolake.instant_time(r.instant, l.tick_us) AS loser_digits,
    loser.writer AS loser_writer,
    r.actor AS loser_actor,
    r.address AS loser_address,
    winner.requested_time AS winner_requested_time,
    r.context ->> 'winner' AS winner_digits,
    winner.writer AS winner_writer,
    winner.completion_time AS winner_completion_time,
    r.context ->> 'rebase_on' AS winner_completion_digits,
    (r.context ->> 'file_groups_in_common')::bigint AS file_groups_in_common,
    r.context -> 'file_groups' AS file_groups,
    r.request_id
FROM chronolake.refusal r
JOIN chronolake.log_table l ON l.table_id = r.table_id
LEFT JOIN chronolake.log_instant loser ON loser.table_id = r.table_id AND loser.requested_time = r.instant
LEFT JOIN chronolake.log_instant winner
    ON winner.table_id = r.table_id AND winner.requested_time = chronolake.moment_of(r.context ->> 'winner')
WHERE r.code = 'write-conflict';

-- These are PostgreSQL's own.
{audit_denials}
{audit_credentials}
CREATE OR REPLACE VIEW chronolake.audit_rollbacks AS
SELECT
    l.table_name,
    e.table_id,
    undone.requested_time,
    chronolake.instant_time(undone.requested_time, l.tick_us) AS requested_digits,
    undone.action,
    undone.operation,
    undone.writer,
    e.time AS rolled_back_at,
    e.payload ->> 'by' AS rolled_back_by,
    e.actor AS rolled_back_by_actor,
    e.payload ->> 'reason' AS reason,
    e.payload ->> 'cause' AS cause,
    undo.action AS undone_by_action,
    undo.requested_time AS undone_by_requested_time,
    chronolake.instant_time(undo.requested_time, l.tick_us) AS undone_by_digits,
    undo.state AS undone_by_state,
    files.names AS files_to_delete,
    e.request_id
FROM chronolake.event e
JOIN chronolake.log_table l ON l.table_id = e.table_id
JOIN chronolake.log_instant undone ON undone.table_id = e.table_id AND undone.requested_time = e.instant
LEFT JOIN chronolake.log_instant undo
    ON undo.table_id = e.table_id AND undo.requested_time = make_timestamptz((e.payload ->> 'rollback')::bigint)
LEFT JOIN (
    SELECT table_id, instant, to_json(list(name ORDER BY ordinal)) AS names
    FROM chronolake.event_entry
    WHERE list = 'plan-files'
    GROUP BY table_id, instant
) AS files ON files.table_id = undo.table_id AND files.instant = undo.requested_time
WHERE e.type IN ('InstantRolledBack', 'SavepointReleased');

-- live
-- The first schema of a table, and the files that others replaced, are not in the log in this form.
CREATE OR REPLACE VIEW chronolake.audit_schemas AS
SELECT
    l.table_name,
    e.table_id,
    (e.payload ->> 'schema_version')::int AS schema_version,
    e.time AS created_at,
    chronolake.instant_time(e.time, l.tick_us) AS created_digits,
    e.actor,
    e.payload -> 'changes' AS changes,
    e.payload -> 'fields' AS fields,
    e.version,
    e.request_id
FROM chronolake.event e
JOIN chronolake.log_table l ON l.table_id = e.table_id
WHERE e.type = 'TableSchemaChanged'
UNION ALL
SELECT * REPLACE (changes::json AS changes, fields::json AS fields)
FROM postgresql.chronolake.audit_schemas
WHERE schema_version = 1;

CREATE OR REPLACE VIEW chronolake.audit_files AS
WITH completed AS (
    SELECT table_id, instant, time, version FROM chronolake.event WHERE type = 'InstantCompleted'
    UNION ALL
    SELECT table_id, instant, time, unnest((payload -> 'staged')::bigint[])
    FROM chronolake.event
    WHERE type = 'InstantCompleted' AND (payload -> 'staged') IS NOT NULL
),
added AS (
    SELECT
        c.table_id, c.instant, c.time, w.partition_path, w.file_id, w.file_name, w.kind, w.size_bytes, w.records
    FROM completed c
    JOIN chronolake.write_stat w ON w.table_id = c.table_id AND w.version = c.version
),
changed AS (
    SELECT
        table_id, instant AS requested_time, time AS completion_time, 'added' AS change, partition_path, file_id, file_name,
        kind, size_bytes, records
    FROM added
    UNION ALL
    SELECT
        p.table_id, p.requested_time, p.completion_time, p.change, p.partition_path, p.file_id, p.file_name, p.kind,
        p.size_bytes, p.records
    FROM postgresql.chronolake.audit_files p
    ANTI JOIN chronolake.log_instant i
        ON i.table_id = p.table_id AND i.requested_time = p.requested_time AND i.action = 'restore'
    WHERE p.change = 'removed'
    UNION ALL
    SELECT
        a.table_id, undo.requested_time, undo.completion_time, 'removed', a.partition_path, a.file_id, a.file_name, a.kind,
        a.size_bytes, a.records
    FROM chronolake.event e
    JOIN chronolake.log_instant undo
        ON undo.table_id = e.table_id AND undo.requested_time = make_timestamptz((e.payload ->> 'rollback')::bigint)
        AND undo.action = 'restore'
    JOIN added a ON a.table_id = e.table_id AND a.instant = e.instant
    WHERE e.type = 'InstantRolledBack'
)
SELECT
    l.table_name,
    c.table_id,
    c.requested_time,
    chronolake.instant_time(c.requested_time, l.tick_us) AS requested_digits,
    c.completion_time,
    chronolake.instant_time(c.completion_time, l.tick_us) AS completion_digits,
    c.change,
    c.partition_path,
    c.file_id,
    c.file_name,
    c.kind,
    c.size_bytes,
    c.records
FROM changed c
JOIN chronolake.log_table l ON l.table_id = c.table_id;
-- end of live

-- Queries name the views without the schema, as in PostgreSQL.
USE chronolake;
