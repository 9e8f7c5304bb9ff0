-- The versions of each table in a range of transactions, how many there are, and the hash of the last.
SELECT range.table_id, range.first, range.last, range.events, head.hash
FROM (
    SELECT e.table_id, min(e.version) AS first, max(e.version) AS last, count(*) AS events
    FROM event e
    WHERE e.transaction_id >= %(begin)s::xid8 AND e.transaction_id < %(end)s::xid8
    GROUP BY e.table_id
) AS range
JOIN event head ON head.table_id = range.table_id AND head.version = range.last
ORDER BY range.table_id
