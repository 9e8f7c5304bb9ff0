"""The requests of the client as values: an operation of the REST API, its parameters and its body. No I/O.

``call`` makes one. The other functions are for operations with parameters in the query or with other checks.
"""

from __future__ import annotations

from chronolake.calls import catalog, files, timeline
from chronolake.calls.base import Call, call

__all__ = ["Call", "call", "catalog", "files", "timeline"]
