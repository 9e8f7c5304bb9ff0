-- The base paths of tables (docs/decisions/0032-base-paths.md).
CREATE TABLE chronolake.base_path (
    table_id   uuid    NOT NULL,
    key        text    COLLATE "C",
    is_checked boolean NOT NULL,
    taken_by   uuid,
    CONSTRAINT base_path_table_unique PRIMARY KEY (table_id),
    CONSTRAINT base_path_disjoint EXCLUDE USING gist (chronolake.folder(key) WITH &&)
        WHERE (is_checked AND taken_by IS NULL)
);

CREATE INDEX base_path_folder ON chronolake.base_path USING gist (chronolake.folder(key)) WHERE taken_by IS NULL;
-- Each query for a table by its name also asks which tables it took over.
CREATE INDEX base_path_taken ON chronolake.base_path (taken_by) WHERE taken_by IS NOT NULL;

COMMENT ON TABLE chronolake.base_path IS
    'The folder of each table, of dropped ones too as long as no newer table has taken it over.';
COMMENT ON COLUMN chronolake.base_path.key IS
    'The base path in its one form, links resolved; null when it cannot be compared: nothing is deleted there.';
COMMENT ON COLUMN chronolake.base_path.is_checked IS
    'Whether the table was created when overlapping base paths were refused.';
COMMENT ON COLUMN chronolake.base_path.taken_by IS
    'The table that took the folder over from this one, which is dropped.';
