-- Whether commands were answered in the present era, except some by their keys. Answers that moved into it from the era before
-- are the first of their chains in PostgreSQL.
SELECT
    EXISTS (
        SELECT
        FROM chronolake.event e
        WHERE e.era = present.era AND NOT starts_with(e.request_id, %(own_keys)s)
    )
    OR EXISTS (
        SELECT FROM chronolake.refusal r WHERE r.era = present.era AND r.transaction_id >= present.began_in
    )
    OR EXISTS (
        SELECT
        FROM chronolake.outcome o
        JOIN chronolake.outcome before ON before.chain_id = o.chain_id AND before.number = o.number - 1
        WHERE o.era = present.era AND NOT starts_with(o.request_id, %(own_keys)s)
    )
FROM chronolake.era present
ORDER BY present.era DESC
LIMIT 1
