CREATE TABLE chronolake.schema_version (
    table_id       uuid        NOT NULL,
    schema_version int         NOT NULL,
    fields         jsonb       NOT NULL,
    created_at     timestamptz NOT NULL,
    version        bigint      NOT NULL,
    CONSTRAINT schema_version_unique PRIMARY KEY (table_id, schema_version),
    CONSTRAINT schema_version_positive CHECK (schema_version >= 1)
);

COMMENT ON TABLE chronolake.schema_version IS 'Every version of the schema of each table.';
COMMENT ON COLUMN chronolake.schema_version.created_at IS 'By the table''s clock.';
COMMENT ON COLUMN chronolake.schema_version.version IS
    'The version of the table''s log whose event created this version of the schema.';
