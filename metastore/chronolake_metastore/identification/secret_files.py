"""A secret in a file, which is read again when the file has changed: orchestrators rotate mounted secrets."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.identification import remembered

LOOK_SECONDS: Final = 1.0
"""How often a file is looked at, at most."""
SECRET_CHARS_MIN: Final = 32
"""A shorter secret could be guessed."""
_BYTES_MAX: Final = 4_096
_FIRST_CHAR, _LAST_CHAR = ord("!"), ord("~")

_log = telemetry.logger(__name__)


class SecretFile:
    """A file whose content, without blanks at its ends, is a secret."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ``ConfigurationError`` if the file has no secret now."""
        self._path = path
        self._clock = clock
        self._digest: bytes | None = self._read()
        self._looked_at = clock()

    async def holds(self, text: str) -> bool:
        """Whether ``text`` is the secret. A file that cannot be read holds none."""
        if self._clock() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = self._clock()
            await asyncio.to_thread(self._look)
        return self._is_of(remembered.key_of(text))

    def differs(self, key: bytes) -> bool:
        """Whether the text with this key (``remembered.key_of``) is not the secret.

        False, too, when the file is to be looked at again: ``holds`` does that.
        """
        return self._clock() - self._looked_at < LOOK_SECONDS and not self._is_of(key)

    def _is_of(self, key: bytes) -> bool:
        return self._digest is not None and hmac.compare_digest(key, self._digest)

    def _look(self) -> None:
        try:
            self._digest = self._read()
        except errors.ConfigurationError as exc:
            if self._digest is not None:
                _log.error("a secret is refused until its file has one again", reason=str(exc))
            self._digest = None

    def _read(self) -> bytes:
        """The hash of the secret: the process keeps no copy."""
        try:
            with self._path.expanduser().open("rb") as file:
                content = file.read(_BYTES_MAX + 1)
        except OSError as exc:
            raise errors.ConfigurationError(f"{self._path} cannot be read: {exc.strerror}") from exc
        secret = content.strip()
        if not SECRET_CHARS_MIN <= len(secret) <= _BYTES_MAX:
            raise errors.ConfigurationError(
                f"{self._path} must have a secret of {SECRET_CHARS_MIN} to {_BYTES_MAX} characters, such as "
                "the output of: openssl rand -base64 32"
            )
        if not all(_FIRST_CHAR <= char <= _LAST_CHAR for char in secret):
            raise errors.ConfigurationError(
                f"{self._path} has a secret that no header can carry; it must be ASCII without blanks, such as "
                "the output of: openssl rand -base64 32"
            )
        return remembered.key_of(secret.decode())
