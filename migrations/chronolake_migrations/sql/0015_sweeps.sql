-- Since when the deletions of an instant want to be looked at once more (docs/decisions/0023).

ALTER TABLE chronolake.instant ADD COLUMN unswept_since timestamptz;

COMMENT ON COLUMN chronolake.instant.unswept_since IS
    'When the last deletion was reported of the instant, or by it of its target; null once nothing was found late.';

UPDATE chronolake.instant i
SET unswept_since = reported.time
FROM (
    SELECT e.table_id, e.instant, max(e.time) AS time
    FROM chronolake.event e
    WHERE e.type = 'FilesDeleted'
    GROUP BY e.table_id, e.instant
) AS reported
WHERE i.table_id = reported.table_id AND i.requested_time = reported.instant AND i.action <> 'clean';

-- In storage the target of a rollback may go on marking files.
UPDATE chronolake.instant SET unswept_since = greatest(unswept_since, completion_time)
WHERE action = 'rollback' AND state = 'completed' AND (plan ->> 'direct_markers')::boolean;

-- What is due is found whatever the length of the timeline; what is not waiting for a sweep is not in it.
CREATE INDEX instant_unswept ON chronolake.instant (table_id, unswept_since, requested_time)
    WHERE unswept_since IS NOT NULL AND state IN ('completed', 'rolled_back');
