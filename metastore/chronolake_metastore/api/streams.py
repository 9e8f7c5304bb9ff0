"""Answers as Arrow, for who would rather have them than pages of JSON."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from litestar import MediaType, Request
from litestar.response import Stream

from chronolake_metastore import errors
from chronolake_model.files import ARROW

if TYPE_CHECKING:
    from chronolake_metastore.store.arrow import ArrowStream


def wants_arrow(request: Request[Any, Any, Any], cursor: str | None) -> bool:
    """Whether the caller would rather have Arrow than JSON; raises ``InvalidParameter``."""
    if request.accept.best_match([MediaType.JSON, ARROW]) != ARROW:
        return False
    if cursor is not None:
        raise errors.InvalidParameter("an Arrow stream is one answer, without pages", parameter="cursor")
    return True


async def queries() -> Any:
    """``queries.file_streams``."""
    # Arrow's libraries take a second to load, and most servers are never asked for it.
    return await asyncio.to_thread(importlib.import_module, "chronolake_metastore.queries.file_streams")


def streamed(stream: ArrowStream) -> Stream:
    """The answer."""
    return Stream(stream.messages(), headers={"Content-Type": ARROW})
