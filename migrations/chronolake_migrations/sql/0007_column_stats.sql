-- What writers say of the columns of their files, and what prunes files by it (docs/decisions/0014).
--
-- Expand: files of before have no column stats, and are never pruned by them.

ALTER TABLE chronolake.write_stat ADD COLUMN column_stats json;

-- json and not jsonb: the digest in the event that published the file is over this very text.
COMMENT ON COLUMN chronolake.write_stat.column_stats IS
    'Bounds and nulls of columns, by field id, as the writer gave them; null when it gave none.';

ALTER TABLE chronolake.file ADD COLUMN column_stats jsonb;

COMMENT ON COLUMN chronolake.file.column_stats IS 'An object: for each field id min, max and nulls, as far as known.';
