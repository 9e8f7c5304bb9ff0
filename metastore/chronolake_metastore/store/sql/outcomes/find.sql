SELECT request_id, fingerprint, table_id, version, status, answer
FROM outcome
WHERE request_id = ANY (%(request_ids)s::text[])
