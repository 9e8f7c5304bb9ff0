-- The base paths of tables, so that no two overlap (docs/decisions).
--
-- A folder is the range of all keys that begin with its own: of two folders one lies in the other, or their ranges are
-- disjoint. So PostgreSQL itself refuses two tables whose base paths overlap.

CREATE TYPE chronolake.folder_range AS RANGE (subtype = text, collation = "C");

-- The keys of a folder and of all that is in it; a key ends with a slash, and 0 is what follows the slash.
CREATE FUNCTION chronolake.folder(key text) RETURNS chronolake.folder_range
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN chronolake.folder_range(key, left(key, -1) || '0');

CREATE TABLE chronolake.base_path (
    table_id   uuid    NOT NULL,
    key        text    COLLATE "C",
    is_checked boolean NOT NULL,
    taken_by   uuid,
    CONSTRAINT base_path_table_unique PRIMARY KEY (table_id),
    -- Tables of before this revision may overlap.
    CONSTRAINT base_path_disjoint EXCLUDE USING gist (chronolake.folder(key) WITH &&)
        WHERE (is_checked AND taken_by IS NULL)
);

CREATE INDEX base_path_folder ON chronolake.base_path USING gist (chronolake.folder(key)) WHERE taken_by IS NULL;

COMMENT ON TABLE chronolake.base_path IS
    'The folder of each table, of dropped ones too as long as no newer table has taken it over.';
COMMENT ON COLUMN chronolake.base_path.key IS
    'The base path in its one form, links resolved; null when it cannot be compared: nothing is deleted there.';
COMMENT ON COLUMN chronolake.base_path.is_checked IS
    'Whether the table was created when overlapping base paths were refused.';
COMMENT ON COLUMN chronolake.base_path.taken_by IS
    'The table that took the folder over from this one, which is dropped.';

GRANT SELECT, INSERT, UPDATE, DELETE ON chronolake.base_path TO chronolake_server;
GRANT SELECT ON chronolake.base_path TO chronolake_auditor;
