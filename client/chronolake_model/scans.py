"""Bodies of the REST API for scans: the snapshot of a table, pruned to what a reader wants."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.files import PartitionPath
from chronolake_model.filters import Filter
from chronolake_model.names import decoder_pattern
from chronolake_model.times import READ_TIME_PATTERN

PAGE_DEFAULT = 1_000
PAGE_MAX = 10_000
PARTITIONS_MAX = 10_000


class Scan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask for the file slices that may have a record that matches the filter.

    The filter may name partition columns, which are judged by partition paths, and others, which are judged by
    column stats. Every slice with a record that matches is in the answer; one in the answer need not have any:
    the reader filters its records again.
    """

    as_of: Annotated[
        Annotated[str, Meta(pattern=decoder_pattern(READ_TIME_PATTERN))] | None,
        Meta(
            description=(
                "A completion time, `earliest` or `latest`. The answer shows the instants that completed at or "
                "before it."
            )
        ),
    ] = None
    partition_paths: (
        Annotated[list[PartitionPath], Meta(max_length=PARTITIONS_MAX, description="Only these partitions.")]
        | None
    ) = None
    filter: Annotated[Filter | None, Meta(description="The wanted records. Default: all.")] = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX, description="The largest number of slices of a page.")] = (
        PAGE_DEFAULT
    )
    cursor: Annotated[
        str | None, Meta(description="`next_cursor` of the page before, with the rest of the body unchanged.")
    ] = None
