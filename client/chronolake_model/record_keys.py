"""The spelling of record keys and partition paths, which every writer of a table must share.

Record keys are Hudi's: ``SimpleKeyGenerator``'s for one field, ``ComplexKeyGenerator``'s for several. Partition
paths are in hive style, escaped as Hive escapes them (Hudi: PartitionPathEncodeUtils). The rules are in
docs/writing.md, with test vectors.
"""

from __future__ import annotations

from typing import Final

NULL_KEY: Final = "__null__"
EMPTY_KEY: Final = "__empty__"
DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
KEPT_KEYS_PROPERTY: Final = "record-keys.kept"
"""A property of adopted tables: their record keys are not spelled as docs/writing.md says (0075)."""
HASH_SEED: Final = 42
"""The seed of the first key field's xxhash64; each field's hash is the seed of the next (Spark's xxhash64)."""

ESCAPED: Final = "".join(map(chr, range(1, 32))) + "\x00\x7f\"#%'*/:=?\\{[]^"
"""The characters that a partition path has as ``%`` and two hexadecimal digits: Hive's. Hudi's Spark reader
looks for the partition of a filter under a path that it escapes itself."""

SEPARATORS: Final = (",", ":")
"""The separators of the fields of a record key; names of such fields have neither."""


def escape(value: str) -> str:
    """``value`` so that it is one name in a path: ``%`` and two hexadecimal digits for what is special."""
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in value)
