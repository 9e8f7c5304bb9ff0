-- Versions of a table's schema: which columns it has had, by field id, and which version wrote the files of an instant
-- (docs/decisions/0013).
--
-- Expand: instants of before say nothing of their schema, and all wrote with version 1. Servers of the release before
-- cannot read the definitions of tables any more, so stop those first.

CREATE TABLE chronolake.schema_version (
    table_id       uuid        NOT NULL,
    schema_version int         NOT NULL,
    fields         jsonb       NOT NULL,
    created_at     timestamptz NOT NULL,
    version        bigint      NOT NULL,
    CONSTRAINT schema_version_unique PRIMARY KEY (table_id, schema_version),
    CONSTRAINT schema_version_positive CHECK (schema_version >= 1)
);

COMMENT ON TABLE chronolake.schema_version IS 'Every version that the schema of each table has had.';
COMMENT ON COLUMN chronolake.schema_version.created_at IS 'By the table''s clock.';
COMMENT ON COLUMN chronolake.schema_version.version IS 'The version of the table''s log that made it.';

GRANT SELECT, INSERT, UPDATE, DELETE ON chronolake.schema_version TO chronolake_server;

ALTER TABLE chronolake.instant ADD COLUMN schema_version int;

COMMENT ON COLUMN chronolake.instant.schema_version IS
    'Of the schema that the instant writes with. Null: it writes no files, or was begun before there were versions, with 1.';

-- What a replay of the log makes of the tables that are there.
UPDATE chronolake.lake_table
SET definition = definition || jsonb_build_object(
    'schema_version', 1,
    'last_field_id', jsonb_array_length(definition -> 'schema'),
    'schema', (
        SELECT jsonb_agg(field || jsonb_build_object('field_id', number) ORDER BY number)
        FROM jsonb_array_elements(definition -> 'schema') WITH ORDINALITY AS numbered (field, number)
    )
);

INSERT INTO chronolake.schema_version (table_id, schema_version, fields, created_at, version)
SELECT table_id, 1, definition -> 'schema', created_at, 1
FROM chronolake.lake_table;

-- ---------------------------------------------------------------------------------------------- views

CREATE VIEW chronolake.audit_schemas AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    s.table_id,
    s.schema_version,
    s.created_at,
    chronolake.instant_time(s.created_at, c.tick_us) AS created_digits,
    e.actor,
    e.payload -> 'changes' AS changes,
    s.fields,
    s.version,
    e.request_id
FROM chronolake.schema_version s
JOIN chronolake.lake_table t ON t.table_id = s.table_id
JOIN chronolake.clock c ON c.table_id = s.table_id
JOIN chronolake.event e ON e.table_id = s.table_id AND e.version = s.version;

COMMENT ON VIEW chronolake.audit_schemas IS
    'Every version of the schema of each table: when, by whom, what was changed, and the columns since.';

GRANT SELECT ON chronolake.audit_schemas TO chronolake_auditor;
