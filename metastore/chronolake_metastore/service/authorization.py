"""Rights, and the one function that decides whether a caller has them."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from chronolake_metastore.domain.context import Context


class Right(enum.Enum):
    """A right on a table, or on the catalog for what names no table."""

    READ = "read"
    WRITE = "write"
    """To begin, complete and roll back instants, with their markers, streams and savepoints."""
    MAINTAIN = "maintain"
    """To delete files and to publish."""
    DEFINE = "define"
    """To create, change and drop tables and namespaces."""
    ADMINISTER = "administer"
    """The metastore itself: only its workers do that."""


def authorize(ctx: Context, names: Sequence[str], right: Right) -> None:
    """Refuse a caller without a ``right`` on the tables and namespaces that are named.

    There is no access control yet, so it allows everything.
    """
