SELECT version_at(%(table_id)s, %(transaction_id)s::text::xid8, %(position)s::bigint)
