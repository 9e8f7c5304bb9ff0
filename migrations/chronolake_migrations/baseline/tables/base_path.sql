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
-- Each query for a table by its name also reads the tables whose folders it took over.
CREATE INDEX base_path_taken ON chronolake.base_path (taken_by) WHERE taken_by IS NOT NULL;

COMMENT ON TABLE chronolake.base_path IS
    'The folder of each table. Dropped tables keep theirs, until a newer table takes it over.';
COMMENT ON COLUMN chronolake.base_path.key IS
    'The normalised base path, with links resolved; null if it cannot be compared: then files of the table are never deleted.';
COMMENT ON COLUMN chronolake.base_path.is_checked IS
    'Whether the base path was compared with those of all other tables when the table was created.';
COMMENT ON COLUMN chronolake.base_path.taken_by IS
    'The table that took the folder over after this table was dropped.';
