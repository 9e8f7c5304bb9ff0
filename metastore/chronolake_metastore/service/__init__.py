"""The service: the only entry to the core for every dialect and worker.

Each command, note and read of a request or a worker passes here with a ``Context``: its names and its right are
checked, and then it is executed.
"""
