SELECT request_id, fingerprint, table_id, version, code, result, dialect, answer_digest
FROM outcome
WHERE request_id = ANY (%(request_ids)s::text[])
