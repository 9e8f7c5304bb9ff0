"""The spelling of partition paths and record keys, which every writer of a table must share (docs/writing.md).

Record keys are Hudi's: ``SimpleKeyGenerator``'s for one field, ``ComplexKeyGenerator``'s for several. A table
states the spelling of its paths by two properties that never change. They are Hudi's: in hive style each part
begins with the name of its field, and with URL encoding special characters are escaped (Hudi:
PartitionPathEncodeUtils).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

NULL_KEY: Final = "__null__"
EMPTY_KEY: Final = "__empty__"
DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
KEPT_KEYS_PROPERTY: Final = "record-keys.kept"
"""A property of adopted tables: their record keys are not spelled as docs/writing.md says (0042)."""
HASH_SEED: Final = 42
"""The seed of the first key field's xxhash64; each field's hash is the seed of the next (Spark's xxhash64)."""
ESCAPED: Final = "".join(map(chr, range(1, 32))) + "\x00\x7f\"#%'*/:=?\\{[]^"
"""The characters that a partition path has as ``%`` and two hexadecimal digits: Hive's. Hudi's Spark reader
looks for the partition of a filter under a path that it escapes itself."""
SEPARATORS: Final = (",", ":")
"""The separators of the fields of a record key; names of such fields have neither."""
HIVE_STYLE_PROPERTY: Final = "partition-paths.hive-style"
URL_ENCODE_PROPERTY: Final = "partition-paths.url-encode"
KEPT_PROPERTY: Final = "partition-paths.kept"
"""A property of adopted tables: their partition paths are not spelled as Chronolake spells values of columns.

The paths are kept, and the values of columns are in the files alone (docs/decisions/0042). It is ``true``, or
``BY_GENERATOR``.
"""
BY_GENERATOR: Final = "by-generator"
"""A key generator of Hudi makes them, such as of a time. Hudi's readers must know it."""


def are_kept(properties: Mapping[str, str]) -> bool:
    """Whether the values of the partition fields of a table with these properties are not in its paths."""
    return KEPT_PROPERTY in properties


class Spelling(msgspec.Struct, frozen=True):
    """How a table spells its partition paths; the defaults are those of a table that states nothing."""

    hive_style: bool = True
    url_encode: bool = True

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Spelling:
        """The spelling of a table with these properties."""
        return cls(
            properties.get(HIVE_STYLE_PROPERTY) != "false", properties.get(URL_ENCODE_PROPERTY) != "false"
        )

    @property
    def properties(self) -> dict[str, str]:
        """The properties that a table states for this spelling: those without their default."""
        stated = {HIVE_STYLE_PROPERTY: self.hive_style, URL_ENCODE_PROPERTY: self.url_encode}
        return {name: "false" for name, is_set in stated.items() if not is_set}


DEFAULT_SPELLING: Final = Spelling()


def prefix(name: str, spelling: Spelling = DEFAULT_SPELLING) -> str:
    """The text before the value of the field ``name``."""
    if not spelling.hive_style:
        return ""
    return f"{escape(name) if spelling.url_encode else name}="


def spelled(text: str | None, spelling: Spelling = DEFAULT_SPELLING) -> str:
    """The text of a value as a partition path has it; null and the empty text are the default partition.

    It does not say whether a writer may write the value: see ``unwritable``.
    """
    if not text:
        return DEFAULT_PARTITION
    return escape(text) if spelling.url_encode else text


def unwritable(spelling: Spelling) -> str | None:
    """A regular expression, of Python and Java, for texts that no partition path of the spelling can have.

    They would be another path, or be read as another value. None if each text has a path, but
    ``DEFAULT_PARTITION``, which a writer refuses in each spelling: a delete of the partition of null would
    delete it too.
    """
    if spelling == DEFAULT_SPELLING:
        return None
    whole = [] if spelling.hive_style else [r"^\.\.?$", r"^\.hoodie$"]
    unescaped = r"\x00-\x1f\x7f/\\%" + ("" if spelling.hive_style else "=")
    characters = [] if spelling.url_encode else [f"[{unescaped}]"]
    return "|".join([*whole, *characters]) or None


def unwritable_message(names: Sequence[str]) -> str:
    """Why a record whose text is ``unwritable`` is refused, and what to do."""
    return (
        f"the partition fields ({', '.join(names)}): there are rows with a value that the table's partition "
        f"paths cannot have, because the table does not escape or name values ({HIVE_STYLE_PROPERTY}, "
        f"{URL_ENCODE_PROPERTY}); change those values, or write them to a table that does"
    )


def reserved_message(names: Sequence[str]) -> str:
    """Why a record with the text ``DEFAULT_PARTITION`` in a partition field is refused, and what to do."""
    return (
        f"the partition fields ({', '.join(names)}): there are rows with the text {DEFAULT_PARTITION!r}, whose "
        "partition is that of null, so their records would be mixed; change those values, or write null instead"
    )


def partition_path(
    names: Sequence[str], texts: Sequence[str | None], spelling: Spelling = DEFAULT_SPELLING
) -> str:
    """The partition path of a record with these texts in its partition fields.

    Raises ``ValueError`` if the spelling has no path for them.
    """
    if DEFAULT_PARTITION in texts:
        raise ValueError(reserved_message(names))
    refused = unwritable(spelling)
    if refused is not None and any(re.search(refused, text) for text in texts if text):
        raise ValueError(unwritable_message(names))
    parts = zip(names, texts, strict=True)
    return "/".join(prefix(name, spelling) + spelled(text, spelling) for name, text in parts)


def escape(value: str) -> str:
    """``value`` so that it is one name in a path: ``%`` and two hexadecimal digits for what is special."""
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in value)
