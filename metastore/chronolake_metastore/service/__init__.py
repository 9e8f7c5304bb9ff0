"""The service: the one door to the core for every dialect and worker.

Whatever a request or a worker asks for passes here with a ``Context``: the names and the right of it are
checked, and then it is executed.
"""
