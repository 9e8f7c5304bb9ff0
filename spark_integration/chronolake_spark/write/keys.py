"""Record key, partition path and bucket of a record, as Spark expressions over a table's columns.

The forms are those of ``chronolake_model.partition_paths``; ``chronolake._keys`` computes the same with Arrow.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from pyspark.sql import Column, functions as sf

from chronolake.writing import column_names, key_refusals, partition_lengths, text_checks
from chronolake_model import partition_paths
from chronolake_model.partition_paths import (
    DEFAULT_PARTITION,
    DEFAULT_SPELLING,
    EMPTY_KEY,
    ESCAPED,
    NULL_KEY,
    Spelling,
)
from chronolake_model.tables import Field
from chronolake_spark import errors
from chronolake_spark.driver.schema import quoted

_DAY_MICROS: Final = 86_400_000_000
_VALUE: Final = "\ue000"
"""The placeholder of the value of a row in the text of an error."""
_HEX_MAX: Final = 80


def record_key(fields: Sequence[Field]) -> Column:
    """The record key: the value itself of one field, ``a:1,b:2`` of several.

    Of no field it is null: the tasks that write the records make their keys.

    Evaluating it raises ``InvalidRecordKey`` for a row whose key is null or empty, and for one with a value
    that would make the text of its key the same as another key's; ``InvalidText`` for one that is not UTF-8.
    """
    if not fields:
        return sf.lit(None).cast("string")
    return _if_utf8(fields, _record_key(fields))


def _record_key(fields: Sequence[Field]) -> Column:
    texts = [_text(field) for field in fields]
    if len(fields) == 1:
        return sf.when(_is_missing(texts[0]), _refused(_no_key(fields))).otherwise(texts[0])
    pairs = [
        sf.concat(
            sf.lit(f"{field.name}:"),
            sf.when(text.isNull(), NULL_KEY).when(text == "", EMPTY_KEY).otherwise(text),
        )
        for field, text in zip(fields, texts, strict=True)
    ]
    all_missing = functools.reduce(operator.and_, map(_is_missing, texts))
    ambiguous = functools.reduce(operator.or_, (_is_ambiguous(text, fields) for text in texts))
    return (
        sf.when(all_missing, _refused(_no_key(fields)))
        .when(ambiguous, _refused(_ambiguous(fields)))
        .otherwise(sf.concat_ws(",", *pairs))
    )


def partition_path(fields: Sequence[Field], spelling: Spelling = DEFAULT_SPELLING) -> Column:
    """The partition path, ``a=1/b=2`` in hive style; the empty string for no fields.

    Evaluating it raises ``InvalidPartitionValue`` for a row whose values have no path in the table's spelling,
    and for the text that is the path of null.
    """
    if not fields:
        return sf.lit("")
    names = [field.name for field in fields]
    texts = [_partition_text(field) for field in fields]
    reserved = [
        text == DEFAULT_PARTITION
        for field, text in zip(fields, texts, strict=True)
        if key_refusals.is_text(field)
    ]
    path = sf.concat_ws("/", *_parts(fields, spelling))
    path = _unless(reserved, partition_paths.reserved_message(names), path)
    pattern = partition_paths.unwritable(spelling)
    if pattern is None:
        return path
    return _unless([text.rlike(pattern) for text in texts], partition_paths.unwritable_message(names), path)


def written_partition_path(fields: Sequence[Field], spelling: Spelling, bytes_max: int) -> Column:
    """The partition path of a row to write.

    Evaluating it also raises ``InvalidPartitionValue`` for a path that storage cannot have (``bytes_max`` is
    that of ``partition_lengths``), and for an empty string in a nullable column: null has the same partition,
    so records of both would be one record, and an overwrite of one would delete the other; ``InvalidText`` for
    a value that is not UTF-8.
    """
    path = _if_utf8(fields, _of_length(fields, spelling, bytes_max))
    mixed = [field.name for field in fields if key_refusals.mixes_empty(field)]
    if not mixed:
        return path
    message = key_refusals.empty_partition(mixed, column_names.plain(mixed[0]))
    return _unless([sf.col(quoted(name)) == "" for name in mixed], message, path)


def bucket(fields: Sequence[Field], buckets: int) -> Column:
    """The bucket of a record key: pmod(xxhash64(record key fields as strings), buckets)."""
    return sf.pmod(sf.xxhash64(*map(_text, fields)), sf.lit(buckets)).cast("int")


def _text(field: Field) -> Column:
    """A value as text, the same in every time zone and ANSI mode of a session."""
    column = sf.col(quoted(field.name))
    type_ = field.type.strip().lower()
    if type_ == "timestamp":
        return sf.unix_micros(column).cast("string")
    if type_.startswith("decimal"):
        # Without ANSI mode a plain cast writes 0.00000001 as 1E-8: another key, and another bucket.
        return column.try_cast("string")
    return column.cast("string")


def _partition_text(field: Field) -> Column:
    """A value as text in a partition path: a timestamp is in ISO 8601, in UTC."""
    if field.type.strip().lower() != "timestamp":
        return _text(field)
    # Not by a format: it would be in the time zone of the session.
    micros = sf.unix_micros(sf.col(quoted(field.name)))
    of_day = sf.pmod(micros, sf.lit(_DAY_MICROS))
    days = ((micros.cast("decimal(20,0)") - of_day) / _DAY_MICROS).cast("int")
    seconds = sf.floor(of_day / 1_000_000)
    fraction = sf.rtrim(sf.format_string(".%06d", of_day % 1_000_000), sf.lit("0"))
    time = sf.format_string(
        "T%02d:%02d:%02d", sf.floor(seconds / 3600), sf.floor(seconds / 60) % 60, seconds % 60
    )
    date = sf.date_add(sf.lit("1970-01-01").cast("date"), days).cast("string")
    text = sf.concat(date, time, sf.when(of_day % 1_000_000 > 0, fraction).otherwise(""), sf.lit("Z"))
    return sf.when(micros.isNotNull(), text)


def _spelled(text: Column, spelling: Spelling) -> Column:
    if not spelling.url_encode:
        return sf.when(_is_missing(text), DEFAULT_PARTITION).otherwise(text)
    return _escaped(text)


def _escaped(text: Column) -> Column:
    special = sf.lit(ESCAPED)
    chars = sf.transform(
        sf.split(text, ""),
        lambda char: sf.when(
            sf.contains(special, char), sf.concat(sf.lit("%"), sf.lpad(sf.hex(sf.ascii(char)), 2, "0"))
        ).otherwise(char),
    )
    is_special = text.rlike(f"[{re.escape(ESCAPED)}]")
    return (
        sf.when(_is_missing(text), DEFAULT_PARTITION).when(is_special, sf.array_join(chars, "")).otherwise(text)
    )


def _is_missing(text: Column) -> Column:
    return text.isNull() | (text == "")


def _is_ambiguous(text: Column, fields: Sequence[Field]) -> Column:
    """Whether a value of a key of several fields reads like a placeholder or like a field's beginning."""
    likenesses = [text.isin(NULL_KEY, EMPTY_KEY), *(text.contains(f",{field.name}:") for field in fields)]
    return sf.coalesce(functools.reduce(operator.or_, likenesses), sf.lit(False))


def _no_key(fields: Sequence[Field]) -> errors.InvalidRecordKey:
    return errors.InvalidRecordKey(key_refusals.missing_key([field.name for field in fields]))


def _ambiguous(fields: Sequence[Field]) -> errors.InvalidRecordKey:
    return errors.InvalidRecordKey(key_refusals.ambiguous_key([field.name for field in fields]))


def _parts(fields: Sequence[Field], spelling: Spelling) -> list[Column]:
    return [
        sf.concat(
            sf.lit(partition_paths.prefix(field.name, spelling)), _spelled(_partition_text(field), spelling)
        )
        for field in fields
    ]


def _of_length(fields: Sequence[Field], spelling: Spelling, bytes_max: int) -> Column:
    """The partition path, but an error for one that is too long."""
    path = partition_path(fields, spelling)
    names = [field.name for field in fields]
    if partition_lengths.may_be_too_long(names, bytes_max):
        size = sf.octet_length(path)
        error = partition_lengths.long_path(names, _VALUE, bytes_max)
        path = sf.when(size > bytes_max, _refused_with(error, size)).otherwise(path)
    for field, part in zip(fields, _parts(fields, spelling), strict=True):
        if not key_refusals.is_text(field):
            continue
        # Short values need not be escaped once more: escapes take three bytes.
        room = partition_lengths.PART_BYTES_MAX - len(partition_paths.prefix(field.name, spelling).encode())
        is_long = sf.octet_length(sf.col(quoted(field.name))) > room // 3
        size = sf.octet_length(part)
        is_too_long = is_long & (size > partition_lengths.PART_BYTES_MAX)
        refused = _refused_with(partition_lengths.long_part(field.name, _VALUE), size)
        path = sf.when(sf.coalesce(is_too_long, sf.lit(False)), refused).otherwise(path)
    return path


def _if_utf8(fields: Sequence[Field], result: Column) -> Column:
    """``result``; evaluating it raises ``InvalidText`` for a row with a string in these fields that is not."""
    for field in filter(key_refusals.is_text, fields):
        column = sf.col(quoted(field.name))
        refused = _refused_with(
            text_checks.of_column(field.name, _VALUE), sf.left(sf.hex(column), sf.lit(_HEX_MAX))
        )
        result = sf.when(~sf.is_valid_utf8(column), refused).otherwise(result)
    return result


def _unless(tests: Sequence[Column], message: str, path: Column) -> Column:
    """``path``; evaluating it raises ``InvalidPartitionValue`` for a row for which one of the tests holds."""
    if not tests:
        return path
    refused = functools.reduce(operator.or_, (sf.coalesce(test, sf.lit(False)) for test in tests))
    return sf.when(refused, _refused(errors.InvalidPartitionValue(message))).otherwise(path)


def _refused_with(error: errors.LocalError, value: Column) -> Column:
    """Raises the error, with ``value`` in place of ``_VALUE``. As a text it needs no escapes in JSON."""
    message = str(error)
    problem = msgspec.json.encode(error.problem).decode()
    text = sf.encode(_with_value(problem, value), "UTF-8")
    # Spark's base64 is not that of URLs, and a setting cuts it into lines.
    code = sf.translate(sf.base64(text), "+/\r\n", "-_")
    return sf.raise_error(sf.concat(_with_value(message, value), sf.lit(" [chronolake:"), code, sf.lit("]")))


def _with_value(text: str, value: Column) -> Column:
    before, _, after = text.partition(_VALUE)
    return sf.concat(sf.lit(before), value.cast("string"), sf.lit(after))


def _refused(error: errors.LocalError) -> Column:
    return sf.raise_error(sf.lit(errors.encoded(error)))
