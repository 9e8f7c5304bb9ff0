"""The token of a client, and the certificates that it trusts. No representation of them shows the token."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from chronolake_model import machine
from chronolake_model.environment import (
    CA_FILE_VARIABLE,
    PLAIN_HTTP_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
)

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_BYTES_MAX: Final = 64 * 1024


class Token(httpx.Auth):
    """A token, or a file with one, which is read again when it has changed: orchestrators rotate secrets."""

    def __init__(self, text: str | None, file: Path | None) -> None:
        """Raises ``ValueError`` if there is no token now."""
        self._file = file
        self._state: tuple[int, ...] | None = None
        self._text = _checked(text, "the token") if text is not None else ""
        if file is not None:
            self._read()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """Send the token with each request. A file that cannot be read now does not end a running job."""
        with contextlib.suppress(ValueError):
            self._read()
        request.headers["Authorization"] = f"Bearer {self._text}"
        yield request

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # as above
        return "<Token>"

    def __reduce__(self) -> tuple[object, ...]:  # type: ignore[explicit-override]  # as above
        # A pickled object may be written to disk, or shown in a plan.
        raise TypeError("a token is not pickled; give token_file, or set CHRONOLAKE_TOKEN_FILE in each process")

    def _read(self) -> None:
        if self._file is None:
            return
        try:
            found = self._file.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
            if state != self._state:
                with self._file.open("rb") as opened:
                    self._text = _checked(opened.read(_BYTES_MAX).decode("latin-1").strip(), str(self._file))
                self._state = state
        except OSError as exc:
            raise ValueError(f"the token file {self._file} cannot be read: {exc.strerror}") from exc


def token_of(url: str, text: str | None, file: str | os.PathLike[str] | None) -> Token | None:
    """The token of the arguments, or else of $CHRONOLAKE_TOKEN or $CHRONOLAKE_TOKEN_FILE.

    Raises ``ValueError`` for two of them, and for one that would travel unencrypted to another machine.
    """
    if text is not None and file is not None:
        raise ValueError("give a token or a token file, not both")
    if text is None and file is None:
        text = os.environ.get(TOKEN_VARIABLE) or None
        file = None if text is not None else os.environ.get(TOKEN_FILE_VARIABLE) or None
    if text is None and file is None:
        return None
    is_allowed = os.environ.get(PLAIN_HTTP_VARIABLE) == "true"
    if not is_allowed and url.lower().startswith("http:") and not is_plain_loopback(url):
        raise ValueError(
            "a token is not sent over plain http to another machine, where others could read it: use an https "
            f"URL, or set {PLAIN_HTTP_VARIABLE}=true if the network protects it"
        )
    return Token(text, None if file is None else Path(file).expanduser())


def is_plain_loopback(url: str) -> bool:
    """Whether a URL is of this machine, by plain http."""
    return url.lower().startswith("http:") and machine.is_loopback(urlsplit(url).hostname or "")


def trust(url: str, ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext | bool:
    """The certificates that a client trusts: those of the file, or of $CHRONOLAKE_CA_FILE, or the usual ones.

    Raises ``ValueError``. Without TLS there are none: to load them takes 30 ms in each task of a job.
    """
    if url.lower().startswith("http:"):
        return False
    path = ca_file or os.environ.get(CA_FILE_VARIABLE) or None
    if path is None:
        return True
    try:
        return ssl.create_default_context(cafile=Path(path).expanduser())
    except OSError as exc:
        raise ValueError(f"the CA file {path} cannot be used: {exc.strerror or exc}") from exc


def refuse_in_url(url: str) -> None:
    """Raise ``ValueError``, without the URL, if it may hold a secret: URLs get into logs."""
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "the server's URL must have no user, query or fragment, because URLs are logged: give a token as "
            f"token, token_file or {TOKEN_FILE_VARIABLE}"
        )


def advice(headers: Mapping[str, str]) -> str:
    """Advice after a request with these headers was refused as that of a stranger."""
    if "Authorization" in headers:
        return "; the token of this client is not accepted: it may be wrong, expired or revoked"
    return f"; this client has no token: give token or token_file, or set {TOKEN_FILE_VARIABLE}"


def _checked(text: str, what: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise ValueError(f"{what} must be one word of printable ASCII characters")
    return text
