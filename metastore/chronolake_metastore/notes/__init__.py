"""Notes: what is durable but not in the log, such as markers and the leases of readers and publishers.

A note appends no event and no outcome, and does not wait for the lock of a table.
"""
