"""The lengths of partition paths: what storage cannot take is refused before a file is written.

File systems, HDFS and some object stores take names of 255 bytes; object stores take keys of 1,024, and so does
the metastore for a path below the base path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from chronolake.slices import errors
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind
from chronolake_model.file_names import PATH_BYTES_MAX
from chronolake_model.markers import has_direct_markers
from chronolake_model.tables import Table

PART_BYTES_MAX: Final = 255
_FILE_NAME_BYTES: Final = len("/" + "f" * 36 + "-0_999999-999999-999999999_" + "9" * 20 + ".parquet")
_MARKER_BYTES: Final = len(".hoodie/.temp/" + "9" * 20 + "/" + ".marker.CREATE")


def path_bytes_max(table: Table) -> int:
    """The bytes that a partition path of the table may have, so that storage takes its files."""
    marker_bytes = _MARKER_BYTES if has_direct_markers(table, None) else 0
    return PATH_BYTES_MAX - _base_bytes(table.base_path) - _FILE_NAME_BYTES - marker_bytes


def _base_bytes(base_path: str) -> int:
    """The bytes of the base path in the keys of objects."""
    try:
        location = base_paths.parse(base_path)
    except ValueError:
        return 0  # A relative path, of a table that is to be made.
    return 0 if location.kind in (Kind.FILE, Kind.HDFS) else len(f"{location.path}/".encode())


def may_be_too_long(names: Sequence[str], bytes_max: int) -> bool:
    """Whether a path can be too long although none of its parts is."""
    return len(names) * (PART_BYTES_MAX + 1) - 1 > bytes_max


def long_part(name: str, size: int | str) -> errors.InvalidPartitionValue:
    """The error of a value whose part of the path has ``size`` bytes."""
    return errors.InvalidPartitionValue(
        f"the partition field {name!r}: there is a row whose value makes a folder name of {size} bytes, and "
        f"storage takes at most {PART_BYTES_MAX}, with the name of the field, and three bytes for each "
        "character that is escaped; shorten these values, or partition by a shorter column",
        {"column": name, "bytes_max": PART_BYTES_MAX},
    )


def long_path(names: Sequence[str], size: int | str, bytes_max: int) -> errors.InvalidPartitionValue:
    """The error of a row whose partition path has ``size`` bytes."""
    return errors.InvalidPartitionValue(
        f"the partition fields ({', '.join(names)}): there is a row whose partition path has {size} bytes, and "
        f"at most {bytes_max} are left beside the base path and the names of files; shorten these values, or "
        "partition by fewer or shorter columns",
        {"columns": list(names), "bytes_max": bytes_max},
    )


def check(names: Sequence[str], paths: Iterable[str], bytes_max: int) -> None:
    """Raise ``InvalidPartitionValue`` for a path of these partition fields that is too long."""
    for path in paths:
        for name, part in zip(names, path.split("/"), strict=True):
            if (size := len(part.encode())) > PART_BYTES_MAX:
                raise long_part(name, size)
        if (size := len(path.encode())) > bytes_max:
            raise long_path(names, size, bytes_max)
