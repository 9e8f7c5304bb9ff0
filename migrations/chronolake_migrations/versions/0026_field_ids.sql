-- Whether a data file carries the field ids of its columns, so that readers can find them by id.
ALTER TABLE chronolake.write_stat ADD COLUMN has_field_ids boolean;
ALTER TABLE chronolake.file ADD COLUMN has_field_ids boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN chronolake.write_stat.has_field_ids IS
    'Whether each column of the file has its field id, as the writer said; null when it did not say.';
COMMENT ON COLUMN chronolake.file.has_field_ids IS
    'Whether each column of the file, nested fields included, has its field id.';
