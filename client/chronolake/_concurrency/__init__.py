"""The differences of an event loop and threads, under the same names.

``chronolake._async`` imports ``awaiting``. ``chronolake._sync`` is generated from it, and imports ``blocking``.
"""
