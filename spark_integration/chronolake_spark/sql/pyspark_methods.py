"""The methods of PySpark that importing this package replaces, for the format ``chronolake`` only.

``load`` and ``save`` go to ``format_frames``. ``load`` of a stream checks the options first, and ``start`` of
one goes to ``stream.starts``. ``saveAsTable``, and CREATE TABLE in ``sql``, are refused: Spark would make an
entry in its catalog that keeps no options, and no table. All other calls go to PySpark unchanged, and so do all
calls if PySpark's internals are not those that this module knows (docs/decisions/0045-spark-format.md).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Final

from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FORMAT

_READWRITER: Final = "pyspark.sql.readwriter"
_SESSION: Final = "pyspark.sql.session"
_STREAMS: Final = "pyspark.sql.streaming.readwriter"
_USING: Final = re.compile(rf"\busing\s+`?{FORMAT}\b", re.IGNORECASE)
_CREATE: Final = re.compile(r"\b(create|replace)\b", re.IGNORECASE)
_INSERT: Final = re.compile(r"\binsert\b", re.IGNORECASE)
_CHANGES: Final = re.compile(r"\b(insert|delete|update|merge)\b", re.IGNORECASE)
_REPLACED: Final = "_chronolake_replaced"


def install() -> None:
    """Replace the methods, now or as soon as PySpark is imported. It may be repeated."""
    for name in (_READWRITER, _SESSION, _STREAMS):
        if (module := sys.modules.get(name)) is not None:
            _replace_in(module)
        elif not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder(name))


def _replace_in(module: ModuleType) -> None:
    if module.__name__ == _READWRITER:
        _replace(module, "DataFrameReader", "load", _load)
        _replace(module, "DataFrameWriter", "save", _save)
        _replace(module, "DataFrameReader", "table", _read_table)
        _replace(module, "DataFrameWriter", "saveAsTable", _save_as_table)
        _replace(module, "DataFrameWriter", "insertInto", _insert_into)
    elif module.__name__ == _STREAMS:
        _replace(module, "DataStreamReader", "format", _format_of_stream)
        _replace(module, "DataStreamReader", "load", _load_of_stream)
        _replace(module, "DataStreamWriter", "start", _start)
        _replace(module, "DataStreamWriter", "toTable", _to_table)
    else:
        _replace(module, "SparkSession", "sql", _sql)
        _replace(module, "SparkSession", "table", _table)


def _replace(module: ModuleType, class_name: str, method: str, replacement: Any) -> None:
    cls = getattr(module, class_name, None)
    original = getattr(cls, method, None)
    if original is None or hasattr(original, _REPLACED):
        return

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return replacement(original, self, *args, **kwargs)

    setattr(call, _REPLACED, True)
    setattr(cls, method, call)


def _load(
    original: Any, reader: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
) -> Any:
    if not _is_ours(reader, "_jreader", format):
        return original(reader, path, format, schema, **options)
    from chronolake_spark import errors  # noqa: PLC0415  # they import PySpark
    from chronolake_spark.sql import format_frames  # noqa: PLC0415  # they import PySpark

    if format is not None:
        reader.format(format)
    if schema is not None:
        reader.schema(schema)
    reader.options(**options)
    if path is not None and not isinstance(path, str):
        raise errors.InvalidOption('a read is of one table: load("namespace.table")')
    given = reader._jreader.userSpecifiedSchema()
    columns = list(given.get().fieldNames()) if given.isDefined() else None
    return format_frames.load(reader._spark, _options(reader._jreader, path), columns)


def _format_of_stream(original: Any, reader: Any, source: str) -> Any:
    formatted = original(reader, source)
    # A Python source cannot tell a stream from a batch when Spark asks it for the columns.
    return formatted.option("view", "changes") if source.lower() == FORMAT else formatted


def _load_of_stream(
    original: Any, reader: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
) -> Any:
    if not _is_ours(reader, "_jreader", format):
        return original(reader, path, format, schema, **options)
    from chronolake_spark.stream import read_options  # noqa: PLC0415

    if format is not None:
        reader.format(format)
    reader.options(**options)
    # Spark asks the source only for the columns here; the query would fail when it has started.
    read_options.parse(_options(reader._jreader, path if isinstance(path, str) else None))
    return original(reader, path, None, schema)


def _save(  # PySpark's own parameters
    original: Any,
    writer: Any,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> Any:
    if not _is_ours(writer, "_jwrite", format):
        return original(writer, path, format, mode, partitionBy, **options)
    from chronolake_spark import errors  # noqa: PLC0415
    from chronolake_spark.sql import format_frames  # noqa: PLC0415

    writer.mode(mode).options(**options)
    if partitionBy is not None or writer._jwrite.partitioningColumns().isDefined():
        raise errors.InvalidOption(
            "leave partitionBy out: a table has the partition fields that it was made with "
            "(partition_fields of chronolake_spark.create_table)"
        )
    format_frames.save(writer._df, _options(writer._jwrite, path), writer._jwrite.curmode().toString())
    return None


def _start(  # PySpark's own parameters
    original: Any,
    writer: Any,
    path: str | None = None,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: Any = None,
    queryName: str | None = None,
    **options: Any,
) -> Any:
    own = _stream_settings(writer) if _may_be_ours(format) else None
    if own is None or (format or str(own["source"])).lower() != FORMAT:
        return original(writer, path, format, outputMode, partitionBy, queryName, **options)
    from chronolake_spark.stream import starts  # noqa: PLC0415

    writer.options(**options)
    if outputMode is not None:
        writer.outputMode(outputMode)
    if partitionBy is not None:
        writer.partitionBy(partitionBy)
    starts.prepare(writer, _stream_settings(writer) or own, path)
    return original(writer, queryName=queryName)


def _may_be_ours(format: str | None) -> bool:
    return format is None or format.lower() == FORMAT


def _stream_settings(writer: Any) -> dict[str, Any] | None:
    """Private fields of a writer of streams in the JVM; None if they are not those that this module knows."""
    names = ("source", "trigger", "outputMode", "extraOptions", "partitioningColumns", "clusteringColumns")
    try:
        settings = {}
        for name in names:
            field = writer._jwrite.getClass().getDeclaredField(name)
            field.setAccessible(True)
            settings[name] = field.get(writer._jwrite)
        return settings
    except Exception:  # another PySpark: then this module replaces nothing
        return None


def _to_table(
    original: Any, writer: Any, tableName: str, format: str | None = None, *args: Any, **kwargs: Any
) -> Any:
    own = _stream_settings(writer) if _may_be_ours(format) else None
    if own is None or (format or str(own["source"])).lower() != FORMAT:
        return original(writer, tableName, format, *args, **kwargs)
    from chronolake_spark import errors  # noqa: PLC0415

    raise errors.InvalidOption(
        "toTable would make an entry in Spark's catalog that keeps no options: write the stream with "
        '.option("table", "namespace.table") and .start()'
    )


def _save_as_table(
    original: Any, writer: Any, name: str, format: str | None = None, *args: Any, **kwargs: Any
) -> Any:
    if not _is_ours(writer, "_jwrite", format):
        return original(writer, name, format, *args, **kwargs)
    from chronolake_spark import errors  # noqa: PLC0415

    raise errors.InvalidOption(
        "saveAsTable would make an entry in Spark's catalog that keeps no options: write with the option "
        'table, .mode("append") and .save(), and show tables to SQL with chronolake_spark.views'
    )


def _insert_into(original: Any, writer: Any, tableName: str, *args: Any, **kwargs: Any) -> Any:
    with _as_target(writer._spark, tableName), _typed_errors():
        return original(writer, tableName, *args, **kwargs)


def _read_table(original: Any, reader: Any, tableName: str) -> Any:
    _refresh_views(reader._spark, tableName)
    with _advised(reader._spark):
        return original(reader, tableName)


def _table(original: Any, session: Any, tableName: str) -> Any:
    _refresh_views(session, tableName)
    with _advised(session):
        return original(session, tableName)


def _sql(original: Any, session: Any, sqlQuery: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(sqlQuery, str):
        if _USING.search(sqlQuery) and _CREATE.search(sqlQuery) and _makes_table(session, sqlQuery):
            from chronolake_spark import errors  # noqa: PLC0415
            from chronolake_spark.common import format_options  # noqa: PLC0415

            raise errors.InvalidOption(format_options.NO_TABLE)
        if _CHANGES.search(sqlQuery):
            from chronolake_spark.sql import commands  # noqa: PLC0415

            commands.refuse_unsupported(session, sqlQuery)
        _refresh_views(session, sqlQuery)
        if _INSERT.search(sqlQuery):
            target = _inserted_into(session, sqlQuery) if _has_views() else None
            as_target = _as_target(session, target) if target else contextlib.nullcontext()
            with _typed_errors(), _advised(session, sqlQuery), as_target:
                return original(session, sqlQuery, *args, **kwargs)
    with _advised(session, str(sqlQuery)):
        return original(session, sqlQuery, *args, **kwargs)


@contextlib.contextmanager
def _typed_errors() -> Iterator[None]:
    """Raise the error of this package that Spark's text carries, if it does, as writes of the Python API do."""
    try:
        yield
    except Exception as exc:  # PySpark passes some of Java's exceptions as they are
        from chronolake_spark import errors  # noqa: PLC0415

        if (error := errors.decoded(str(exc))) is not None:
            raise error from exc
        raise


@contextlib.contextmanager
def _advised(session: Any, query: str = "") -> Iterator[None]:
    """Say what to call instead, if Spark refuses a query of a table of Chronolake."""
    try:
        yield
    except Exception as exc:
        from chronolake_spark.sql import advice  # noqa: PLC0415

        advice.give(session, query, exc)
        raise


def _has_views() -> bool:
    # The module makes the views, so without it there are none.
    return f"{__package__}.views" in sys.modules


def _refresh_views(session: Any, query: str) -> None:
    if _has_views():
        from chronolake_spark.sql import views  # noqa: PLC0415

        views.refresh(session, query)


def _as_target(session: Any, name: str) -> contextlib.AbstractContextManager[None]:
    if not _has_views():
        return contextlib.nullcontext()
    from chronolake_spark.sql import views  # noqa: PLC0415

    return views.as_target(session, name.strip("`"))


def _inserted_into(session: Any, query: str) -> str | None:
    """The name of one part that the query inserts into, if Spark's parser takes it for INSERT."""
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(query)
        parts = plan.table().multipartIdentifier()
        return str(parts.head()) if plan.nodeName() == "InsertIntoStatement" and parts.size() == 1 else None
    except Exception:  # py4j has many errors: for a query that is no such command, Spark decides
        return None


def _makes_table(session: Any, query: str) -> bool:
    """Whether Spark's parser takes the query for CREATE or REPLACE TABLE with this format."""
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(query)
        provider = plan.tableSpec().provider()
        return bool(provider.isDefined() and provider.get().lower() == FORMAT)
    except Exception:  # py4j has many errors: for a query that is no such command, Spark decides
        return False


def _is_ours(caller: Any, attribute: str, format: str | None) -> bool:
    if format is not None:
        return format.lower() == FORMAT
    try:
        return bool(getattr(caller, attribute).source().lower() == FORMAT)
    except Exception:  # another PySpark: then this module replaces nothing
        return False


def _options(java: Any, path: str | None) -> dict[str, str]:
    """The options of a reader or a writer of the JVM."""
    return format_options.of_jvm(java.extraOptions(), path)


# typing.override is Python 3.12's.
class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module of PySpark when it is imported, so that its methods are replaced after it is loaded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(  # type: ignore[explicit-override]
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that replaces methods."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads a module by its own loader, then replaces methods in it."""

    def __init__(self, own: importlib.abc.Loader) -> None:
        self._own = own

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:  # type: ignore[explicit-override]
        """As the own loader."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:  # type: ignore[explicit-override]
        """As the own loader, which the module has afterwards."""
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._own
        self._own.exec_module(module)
        _replace_in(module)
