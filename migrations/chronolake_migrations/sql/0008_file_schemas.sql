-- Each file says which schema wrote it, without a look at its instant.

ALTER TABLE chronolake.file ADD COLUMN schema_version integer NOT NULL DEFAULT 1;
UPDATE chronolake.file f
SET schema_version = i.schema_version
FROM chronolake.instant i
WHERE i.table_id = f.table_id AND i.requested_time = f.requested_time AND i.schema_version > 1;
ALTER TABLE chronolake.file ALTER COLUMN schema_version DROP DEFAULT;

COMMENT ON COLUMN chronolake.file.schema_version IS 'The version of the table''s schema that the file was written with.';
