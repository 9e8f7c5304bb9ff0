"""Keys, partition paths and buckets in plain Python, for python_writer.py; see docs/writing.md."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

EXACT = Context(prec=76)
MASK = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
ESCAPED = {*map(chr, range(32)), *"\x7f\"#%'*/:=?\\{[]^"}


def key_text(value: Any, type_: str) -> str | None:  # noqa: PLR0911  # one for each form
    """A value of a key field or partition field as text; ``value`` is as the vectors have it."""
    match type_.lower().partition("(")[0]:
        case _ if value is None:
            return None
        case "boolean":
            return "true" if value else "false"
        case "tinyint" | "smallint" | "int" | "bigint" | "timestamp":
            return str(int(value))
        case "decimal":
            scale = int(type_.rstrip(") ").rpartition(",")[2])
            return format(Decimal(value).quantize(Decimal(1).scaleb(-scale), context=EXACT), "f")
        case "date":
            return date_text(int(value))
        case "timestamp_ntz":
            return time_text(int(value))
        case "string":
            return str(value)
        case _:
            raise ValueError(f"{type_} is no type of a key field or a partition field")


def partition_text(value: Any, type_: str) -> str | None:
    """A value of a partition field as text; ``value`` is as the vectors have it."""
    if value is None or type_.lower() != "timestamp":
        return key_text(value, type_)
    return f"{time_text(int(value)).replace(' ', 'T')}Z"


def time_text(micros_since_1970: int) -> str:
    """yyyy-MM-dd HH:mm:ss, and the microseconds without trailing zeros unless they are 0."""
    days, micros = divmod(micros_since_1970, 86_400_000_000)
    seconds, fraction = divmod(micros, 1_000_000)
    time_of_day = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{date_text(days)} {time_of_day}" + (f".{fraction:06}".rstrip("0") if fraction else "")


def file_id_of(bucket: int, generation: int = 0) -> str:
    """The file id of a bucket's file group; ``generation`` counts those that were replaced before it."""
    return f"{bucket:08}-0000-0000-0000-{generation:012}-0"


def write_token(partition: int, stage: int, attempt: int) -> str:
    """Says which attempt of which task wrote a file."""
    return f"{partition}-{stage}-{attempt}"


def base_file_name(file_id: str, token: str, requested_time: str) -> str:
    """The name of a base file."""
    return f"{file_id}_{token}_{requested_time}.parquet"


def date_text(days: int) -> str:
    """Days since 1970-01-01 as yyyy-MM-dd (algorithm: Howard Hinnant, days_from_civil)."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day, month = day_of_year - (153 * shifted + 2) // 5 + 1, shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def record_key(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """The record key: the text of one field, ``a:1,b:2`` of several. Raises ``ValueError``."""
    if all(not text for text in texts):
        raise ValueError(f"the record key {', '.join(names)} is null or empty")
    if len(texts) == 1:
        return str(texts[0])
    for text in texts:
        if text in ("__null__", "__empty__") or any(f",{name}:" in (text or "") for name in names):
            raise ValueError(f"the value {text!r} makes the record key ambiguous")
    values = ("__null__" if text is None else text or "__empty__" for text in texts)
    return ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))


def partition_path(
    names: Sequence[str], texts: Sequence[str | None], *, hive_style: bool = True, url_encode: bool = True
) -> str:
    """``a=1/b=2``, or ``1/2`` unless in hive style; empty without partition fields. Raises ``ValueError``."""
    parts = []
    for name, text in zip(names, texts, strict=True):
        if text and not is_writable(text, hive_style=hive_style, url_encode=url_encode):
            raise ValueError(f"the partition paths of this table cannot have the value {text!r}")
        spell = escape if url_encode else str
        value = spell(text) if text else "__HIVE_DEFAULT_PARTITION__"
        parts.append(f"{spell(name)}={value}" if hive_style else value)
    return "/".join(parts)


def is_writable(text: str, *, hive_style: bool, url_encode: bool) -> bool:
    """Whether a partition path can have the value: it would not be another path, or read as another value."""
    if text == "__HIVE_DEFAULT_PARTITION__":
        return False
    if not hive_style and text in (".", "..", ".hoodie"):
        return False
    refused = "/\\%\x7f" if hive_style else "/\\%\x7f="
    return url_encode or not any(char < " " or char in refused for char in text)


def escape(text: str) -> str:
    """Percent and two hexadecimal digits in place of each special character."""
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in text)


def key_hash(texts: Sequence[str | None]) -> int:
    """The hash of the key fields' texts, signed: XXH64, seed 42, each hash the seed of the next; nulls pass."""
    seed = 42
    for text in texts:
        if text is not None:
            seed = xxh64(text.encode(), seed)
    return seed - (1 << 64) if seed >> 63 else seed


def xxh64(octets: bytes, seed: int) -> int:
    """XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), unsigned."""
    at = 0
    if len(octets) >= 32:
        lanes = [seed + P1 + P2, seed + P2, seed, seed - P1]
        while at + 32 <= len(octets):
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(octets[at : at + 8], "little"))
                at += 8
        state = (
            sum(_rotated(lane & MASK, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        )
        for lane in lanes:
            state = ((state ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        state = seed + P5
    state = (state + len(octets)) & MASK
    while at + 8 <= len(octets):
        word = _round(0, int.from_bytes(octets[at : at + 8], "little"))
        state = (_rotated(state ^ word, 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(octets):
        word = int.from_bytes(octets[at : at + 4], "little") * P1 & MASK
        state = (_rotated(state ^ word, 23) * P2 + P3) & MASK
        at += 4
    for octet in octets[at:]:
        state = _rotated(state ^ (octet * P5 & MASK), 11) * P1 & MASK
    state = (state ^ (state >> 33)) * P2 & MASK
    state = (state ^ (state >> 29)) * P3 & MASK
    return state ^ (state >> 32)


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * P2) & MASK, 31) * P1 & MASK


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & MASK


def bucket_of(texts: Sequence[str | None], buckets: int) -> int:
    """0 to ``buckets`` - 1: the remainder that is never negative (Python's %, Java's Math.floorMod)."""
    return key_hash(texts) % buckets
