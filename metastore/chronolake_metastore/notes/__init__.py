"""Notes: changes that are durable but not in the log, such as markers, leases of readers and of publishers.

A note appends no event and no outcome, and does not wait for the lock of a table.
"""
