-- Wait for all locks before the transaction has an id. A row lock gives it one, and then waits for the next row or
-- for a newer version of the same: a transaction with an older id would append behind one with a younger, and the
-- order across tables (transaction_id, position) would not be the order of a table's versions. An advisory lock
-- needs no transaction id. unnest keeps the order of its array, so there is no deadlock.
SELECT pg_advisory_xact_lock(%(lock)s::integer, key)
FROM unnest(%(keys)s::integer[]) AS key
