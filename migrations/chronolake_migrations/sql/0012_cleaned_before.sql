-- Files that left the latest file slices at this completion time or before may be gone from storage.

ALTER TABLE chronolake.lake_table ADD COLUMN cleaned_before timestamptz;

COMMENT ON COLUMN chronolake.lake_table.cleaned_before IS
    'The first completion time that the table is served as of; null as long as no clean has said otherwise.';
