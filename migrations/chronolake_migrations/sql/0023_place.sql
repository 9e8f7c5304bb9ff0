-- The embedded PostgreSQL says where its data folder is, in a setting of each connection. A copied folder, which has the
-- system identifier of its original, then has another place, and nothing is deleted from it until it was claimed.
--
-- The default is evaluated once for the rows that are there: they get the place in which this revision runs.

ALTER TABLE chronolake.metastore
    ADD COLUMN IF NOT EXISTS place text DEFAULT nullif(current_setting('chronolake.place', true), '');

COMMENT ON COLUMN chronolake.metastore.place IS
    'The place of the data folder of an embedded PostgreSQL, as a digest; null for any other PostgreSQL.';
