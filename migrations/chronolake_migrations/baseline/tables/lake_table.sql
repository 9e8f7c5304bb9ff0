CREATE TABLE chronolake.lake_table (
    table_id                  uuid             NOT NULL,
    namespace                 text COLLATE "C" NOT NULL,
    name                      text COLLATE "C" NOT NULL,
    definition                jsonb            NOT NULL,
    created_at                timestamptz      NOT NULL,
    dropped_at                timestamptz,
    cleaned_before            timestamptz,
    earliest_commit_to_retain timestamptz,
    CONSTRAINT lake_table_id_unique PRIMARY KEY (table_id)
);

CREATE UNIQUE INDEX lake_table_name_unique ON chronolake.lake_table (namespace, name) WHERE dropped_at IS NULL;
CREATE INDEX lake_table_dropped ON chronolake.lake_table (namespace, name) WHERE dropped_at IS NOT NULL;
-- For the tables whose silent streams end by a setting of their own.
CREATE INDEX lake_table_stream_wait ON chronolake.lake_table (table_id)
    WHERE definition -> 'properties' ? 'streams.wait-seconds';

COMMENT ON TABLE chronolake.lake_table IS 'The tables, dropped ones too. (TABLE is a reserved word of SQL.)';
COMMENT ON COLUMN chronolake.lake_table.cleaned_before IS
    'The first completion time as of which the table can be read; null if no clean has raised it.';
COMMENT ON COLUMN chronolake.lake_table.earliest_commit_to_retain IS
    'The requested time from which on cleans keep all files, as Hudi has it in its cleans; null before the first clean.';
