"""The tables of the examples."""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_model.times import Tick
from chronolake_model.vocabulary import TableType, Yields

BUCKETS: Final = 2


class Kind(msgspec.Struct, frozen=True):
    """The parameters of a new table."""

    type: TableType
    tick: Tick = Tick.MILLISECOND
    yields: Yields = Yields.TABLE_SERVICE


KINDS: Final = {
    "shop.orders": Kind(TableType.COPY_ON_WRITE),
    "shop.clicks": Kind(TableType.MERGE_ON_READ),
    "shop.giving_way": Kind(TableType.MERGE_ON_READ, yields=Yields.WRITER),
    "shop.fast": Kind(TableType.COPY_ON_WRITE, tick=Tick.MICROSECOND),
}
