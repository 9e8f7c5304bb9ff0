"""New file groups that each task opens by itself: rows that are not looked up need no shuffle."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from chronolake.slices import columns
from chronolake.writing.stored_groups import GroupNumber, StoredGroup
from chronolake_model.tables import SchemaField


class OpenedGroups:
    """A ``Lookup`` whose file groups are all new. Each attempt of a task gives them other file ids."""

    def groups(self, groups: Sequence[GroupNumber]) -> dict[GroupNumber, StoredGroup]:
        """As ``Lookup.groups``."""
        return {group: StoredGroup(None, f"{uuid.uuid4()}-0") for group in groups}

    def fields(self, schema_version: int) -> Sequence[SchemaField]:
        """As ``Lookup.fields``: no file of another version is read."""
        raise AssertionError(f"no file of version {schema_version} is read")


def numbered(batches: Iterable[pa.RecordBatch], records_max: int) -> Iterator[pa.RecordBatch]:
    """The batches, which come partition by partition, with numbers of file groups of few enough records."""
    current, records = None, 0
    for batch in batches:
        numbers = np.empty(len(batch), np.int32)
        for path, start, end in _runs(batch):
            if path != current:
                current, records = path, 0
            numbers[start:end] = np.arange(records, records + end - start) // records_max
            records += end - start
        yield batch.append_column(columns.BUCKET, pa.array(numbers))


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[str, int, int]]:
    """Where the rows of each partition path begin and end."""
    paths = batch[columns.PARTITION_PATH].dictionary_encode()
    codes = paths.indices.to_numpy()
    bounds = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(batch)]
    for start, end in itertools.pairwise(bounds):
        if end > start:
            yield paths.dictionary[int(codes[start])].as_py(), start, end
