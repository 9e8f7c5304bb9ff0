"""The state of the process from which server processes are forked: the imported server with full caches."""

from __future__ import annotations

import gc

from chronolake_metastore.app import create_app
from chronolake_metastore.cli import main
from chronolake_metastore.settings import Settings

__all__ = ["main"]

# Litestar and msgspec keep what they learn of signatures and types.
create_app(Settings(dsn=""))
# A collection in a forked process would write to, and so copy, the memory of all these objects.
gc.collect()
gc.freeze()
