"""The one function that decides whether a caller has a right."""

from __future__ import annotations

from collections.abc import Sequence

from chronolake_metastore.domain.context import Context
from chronolake_model.operations.declaring import Right


def authorize(ctx: Context, names: Sequence[str], right: Right) -> None:
    """Refuse a caller without a ``right`` on the tables and namespaces that are named.

    There is no access control yet, so it allows everything.
    """
