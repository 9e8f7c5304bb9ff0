"""The token of a client, and the certificates that it trusts. No representation of them shows the token."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import ssl
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from chronolake_model import machine
from chronolake_model.environment import PLAIN_HTTP_VARIABLE, TOKEN_FILE_VARIABLE

CREDENTIALS_LOGGER: Final = "chronolake.credentials"
_LOG: Final = logging.getLogger(CREDENTIALS_LOGGER)
_SECRET: Final = re.compile(r"[\x21-\x7e]+")
_BYTES_MAX: Final = 64 * 1024
_READABLE_BY_ALL: Final = 0o004
_WARNED: Final[set[Path]] = set()


class Token(httpx.Auth):
    """A token, or a file with one, which is read again when it has changed: orchestrators rotate secrets."""

    def __init__(self, text: str | None, file: Path | None) -> None:
        """Raises ``ValueError`` if there is no token now."""
        self._file = file
        self._state: tuple[int, ...] | None = None
        self._text = checked(text, "the token") if text is not None else ""
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
        except OSError as exc:
            raise _unreadable(self._file, exc) from exc
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        if state != self._state:
            self._text = secret_in(self._file)
            self._state = state


def secret_in(file: Path) -> str:
    """The secret that a file has, without blanks at its ends. Raises ``ValueError``, without the secret.

    Warns once of a file of this user that every user can read.
    """
    try:
        with file.open("rb") as opened:
            _warn_if_readable_by_all(file, os.fstat(opened.fileno()))
            content = opened.read(_BYTES_MAX)
    except OSError as exc:
        raise _unreadable(file, exc) from exc
    return checked(content.decode("latin-1").strip(), str(file))


def refuse_plain_http(url: str, what: str) -> None:
    """Raise ``ValueError`` if ``what`` would travel unencrypted to another machine."""
    allowed = os.environ.get(PLAIN_HTTP_VARIABLE) == "true"
    if not allowed and url.lower().startswith("http:") and not is_plain_loopback(url):
        raise ValueError(
            f"{what} is not sent over plain http to another machine, where others could read it: use an https "
            f"URL, or set {PLAIN_HTTP_VARIABLE}=true if the network protects it"
        )


def is_plain_loopback(url: str) -> bool:
    """Whether a URL is of this machine, by plain http."""
    return url.lower().startswith("http:") and machine.is_loopback(urlsplit(url).hostname or "")


def trust(url: str, ca_file: str | None, *, besides_usual: bool = False) -> ssl.SSLContext | bool:
    """The certificates that a client trusts: those of the file, ``besides_usual`` ones, or else the usual ones.

    Raises ``ValueError``. Without TLS there are none: to load them takes 30 ms in each task of a job.
    """
    if url.lower().startswith("http:"):
        return False
    if ca_file is None:
        return True
    path = Path(ca_file).expanduser()
    try:
        if not besides_usual:
            return ssl.create_default_context(cafile=path)
        context = httpx.create_ssl_context()
        context.load_verify_locations(path)
        return context
    except OSError as exc:
        raise ValueError(f"the CA file {ca_file} cannot be used: {exc.strerror or exc}") from exc


def refuse_in_url(url: str) -> None:
    """Raise ``ValueError``, without the URL, if it may hold a secret: URLs get into logs."""
    parts = urlsplit(url)
    # Also behind a slash, which a password may have.
    if "@" in url or parts.query or parts.fragment:
        raise ValueError(
            "the server's URL must have no user, query or fragment, because URLs are logged: give a token as "
            f"token, token_file or {TOKEN_FILE_VARIABLE}"
        )


def advice(headers: Mapping[str, str]) -> str:
    """Advice after a request with these headers was refused as that of a stranger."""
    if "Authorization" in headers:
        return "; the token of this client is not accepted: it may be wrong, expired or revoked"
    return (
        "; this client has no token: give token or token_file (--token-file), or set "
        f"{TOKEN_FILE_VARIABLE} in each process"
    )


def _warn_if_readable_by_all(file: Path, found: os.stat_result) -> None:
    # Of another user's file, as those that orchestrators mount, this user cannot change the rights.
    is_own = hasattr(os, "geteuid") and found.st_uid == os.geteuid()
    if is_own and found.st_mode & _READABLE_BY_ALL and file not in _WARNED:
        _WARNED.add(file)
        _LOG.warning("every user of this machine can read the secret in %s: chmod 600 %s", file, file)


def _unreadable(file: Path, exc: OSError) -> ValueError:
    return ValueError(f"the file {file} cannot be read: {exc.strerror}")


def checked(text: str, what: str) -> str:
    if not _SECRET.fullmatch(text):
        raise ValueError(f"{what} must be one word of printable ASCII characters")
    return text
