-- Servers look for silent streams every few seconds, and many streams may wait for their job for days. The column tells
-- both apart without a look at the reports.
ALTER TABLE chronolake.stream_checkpoint ADD is_reported boolean NOT NULL DEFAULT false;

UPDATE chronolake.stream_checkpoint c
SET is_reported = (
    SELECT coalesce(bool_and((report.value ->> 'last_batch')::boolean), false)
    FROM jsonb_each(c.tasks) AS report
);

CREATE INDEX stream_checkpoint_unreported ON chronolake.stream_checkpoint (table_id, stream) WHERE NOT is_reported;
CREATE INDEX stream_lease ON chronolake.stream (lease_expires_at);
CREATE INDEX lake_table_stream_wait ON chronolake.lake_table (table_id)
    WHERE definition -> 'properties' ? 'streams.wait-seconds';

COMMENT ON COLUMN chronolake.stream_checkpoint.is_reported IS
    'Whether tasks have reported and all of them their last batch, so that a later checkpoint may be complete.';
