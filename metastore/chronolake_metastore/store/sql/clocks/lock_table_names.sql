-- Wait for all locks before the transaction gets its id. An advisory lock needs no transaction id, but a row lock assigns
-- one, and may then wait for the next row. So with row locks alone, a transaction with a lower id could append after one
-- with a higher id: the order across tables (transaction_id, position) would not be the order of a table's versions.
-- unnest keeps the order of its array, so there is no deadlock.
SELECT pg_advisory_xact_lock(%(lock)s::integer, key)
FROM unnest(%(keys)s::integer[]) AS key
