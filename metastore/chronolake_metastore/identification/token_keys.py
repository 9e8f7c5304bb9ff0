"""The keys under which the database has tokens: an HMAC, so that a copy of the database cannot be searched.

A file has a key on each line. New tokens use the first; the others are for tokens that were made before.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings

KEY_BYTES_MIN: Final = 32
FILE_NAME: Final = "token-keys"
"""The file in the folder of an embedded database."""


class TokenKeys:
    """The keys of one file."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """``keys`` by their ids, the one for new tokens first."""
        self._keys = keys
        self.first_id = next(iter(keys))

    def digest(self, key_id: str, token: str) -> str | None:
        """The HMAC-SHA256 of a token as hexadecimal digits; None without this key."""
        key = self._keys.get(key_id)
        return None if key is None else hmac.new(key, token.encode(), hashlib.sha256).hexdigest()


def read(path: Path) -> TokenKeys:
    """The keys in a file; raises ``ConfigurationError``."""
    try:
        lines = path.expanduser().read_text("ascii").split()
        keys = [base64.b64decode(line, validate=True) for line in lines]
    except OSError as exc:
        raise errors.ConfigurationError(f"the token keys {path} cannot be read: {exc.strerror}") from exc
    except (UnicodeDecodeError, binascii.Error) as exc:
        raise errors.ConfigurationError(f"{path}: {_FORM}") from exc
    if not keys or any(len(key) < KEY_BYTES_MIN for key in keys):
        raise errors.ConfigurationError(f"{path}: {_FORM}")
    return TokenKeys({_id_of(key): key for key in keys})


def file_of(settings: Settings) -> Path | None:
    """The file of keys. That of an embedded database is made if it is missing.

    Raises ``ConfigurationError``.
    """
    if settings.token_key_file is not None or settings.dsn:
        return settings.token_key_file
    path = settings.data_dir.expanduser() / FILE_NAME
    if path.exists():
        return path
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES_MIN)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # A link and no rename: of two processes that make the file, the second must not replace it.
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
    except OSError as exc:
        raise errors.ConfigurationError(f"the token keys {path} cannot be written: {exc.strerror}") from exc
    finally:
        beside.unlink(missing_ok=True)
    return path


def _id_of(key: bytes) -> str:
    """The id of a key, which follows from it and says nothing about it."""
    return hashlib.sha256(b"chronolake token key " + key).hexdigest()[:16]


_FORM: Final = (
    f"it must have keys of {KEY_BYTES_MIN} bytes or more in base64, one a line: "
    f"openssl rand -base64 {KEY_BYTES_MIN}"
)
