"""Base paths: how each spelling is read, and a key by which two tables are compared.

Two base paths overlap when the key of one is a prefix of the other's key; each key ends with a slash. What
pyarrow (clients) and obstore (servers) read differently is refused instead of guessed. Where it is unknown
whether two spellings name the same storage (endpoints, accounts, hosts of HDFS), they count as the same.
"""

from __future__ import annotations

import enum
import re
from typing import Final
from urllib.parse import unquote

import msgspec

KEY_BYTES_MAX: Final = 900
"""Bytes of a key: object stores take paths of 1,024, the names of the files included."""
SCHEMES: Final = "file, s3 (s3a, s3n), gs (gcs), az (abfs, abfss, adl, azure) and hdfs"


class Kind(enum.StrEnum):
    """The kind of storage."""

    FILE = "file"
    S3 = "s3"
    GCS = "gs"
    AZURE = "az"
    HDFS = "hdfs"


_KINDS: Final = {
    "file": Kind.FILE,
    **dict.fromkeys(("s3", "s3a", "s3n"), Kind.S3),
    **dict.fromkeys(("gs", "gcs"), Kind.GCS),
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), Kind.AZURE),
    "hdfs": Kind.HDFS,
}
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BUCKET = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_CONTAINER = re.compile(r"[A-Za-z0-9$]([A-Za-z0-9-]*[A-Za-z0-9])?", re.ASCII)
_AZURE_HOST = re.compile(r"[A-Za-z0-9]+\.dfs\.core\.windows\.net", re.ASCII | re.IGNORECASE)
_HDFS_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(:[0-9]{1,5})?)?", re.ASCII)


class Location(msgspec.Struct, frozen=True):
    """Where a base path is.

    ``bucket`` is the bucket, or the container of Azure; empty for local paths and HDFS. ``path`` of a local
    path and of HDFS begins with a slash; in a bucket it has no slash at either end. ``account`` is the host of
    Azure's account, if the base path names it.
    """

    kind: Kind
    bucket: str
    path: str
    account: str = ""

    @property
    def key(self) -> str:
        """The key to compare with. It ends with a slash, and is itself a base path of the same key."""
        return self._at(self.bucket)

    @property
    def address(self) -> str:
        """The key with Azure's account, which a list of what is allowed must not leave out."""
        return self._at(f"{self.bucket}@{self.account}" if self.account else self.bucket)

    def _at(self, authority: str) -> str:
        path = self.path.strip("/")
        if self.kind is Kind.FILE:
            path = path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
        return f"{self.kind}://{authority}/{path}/" if path else f"{self.kind}://{authority}/"


def parse(base_path: str) -> Location:
    """Where ``base_path`` is; raises ``ValueError`` when that cannot be said for certain."""
    _refuse_invisible(base_path)
    if base_path.startswith("/"):
        if "://" in base_path:
            raise ValueError(f"{_excerpt(base_path)} is a local path with :// in it; rename the folder")
        return Location(Kind.FILE, "", _normalised(base_path, base_path))
    match = _URI.fullmatch(base_path)
    if match is None:
        raise ValueError(
            f"{_excerpt(base_path)} is a relative path, which each client and server would resolve "
            "differently; give an absolute path or a URI"
        )
    kind = _KINDS.get(match["scheme"].lower())
    if kind is None:
        raise ValueError(
            f"{_excerpt(base_path)} has the scheme {match['scheme'][:40]!r}; the schemes are {SCHEMES}"
            + ("; write https://bucket.s3.amazonaws.com/path as s3://bucket/path" if _is_web(match) else "")
        )
    location = match["rest"].partition("#")[0].partition("?")[0]
    return _file(base_path, location) if kind is Kind.FILE else _stored(base_path, kind, location)


def canonical(base_path: str) -> str:
    """The key of ``base_path``; raises ``ValueError`` as ``parse``."""
    key = parse(base_path).key
    if len(key.encode()) > KEY_BYTES_MAX:
        raise ValueError(f"the base path is longer than {KEY_BYTES_MAX} bytes; choose a shorter one")
    return key


def canonical_if_comparable(base_path: str) -> str | None:
    """The key of ``base_path``; None when it has none."""
    try:
        return canonical(base_path)
    except ValueError:
        return None


def _file(base_path: str, location: str) -> Location:
    path = location
    if location.startswith("//"):
        host, slash, path = location[2:].partition("/")
        _refuse_user(host)
        if host.lower() not in ("", "localhost"):
            raise ValueError(
                f"{_excerpt(base_path)} names the host {host[:100]!r}; a file URI may name only localhost"
            )
        path = slash + path
    if not path.startswith("/"):
        raise ValueError(f"{_excerpt(base_path)} is a relative path; write file:///folder")
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{_excerpt(base_path)} has percent escapes that are not UTF-8") from exc
    _refuse_invisible(decoded, within=True)
    return Location(Kind.FILE, "", _normalised(base_path, decoded))


def _stored(base_path: str, kind: Kind, location: str) -> Location:
    if not location.startswith("//"):
        raise ValueError(f"{_excerpt(base_path)} names no bucket; write {kind}://bucket/path")
    authority, _, path = location[2:].partition("/")
    if "%" in authority or "%" in path:
        raise ValueError(
            f"{_excerpt(base_path)} has a percent sign, which clients and servers would read differently; "
            "choose a base path without one"
        )
    bucket, account = _bucket(base_path, kind, authority)
    path = path.removesuffix("/")
    if path and any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(
            f"{_excerpt(base_path)} has an empty part, '.' or '..', which clients and servers would read "
            "differently; write the path without it"
        )
    return Location(kind, bucket, f"/{path}" if kind is Kind.HDFS else path, account)


def _bucket(base_path: str, kind: Kind, authority: str) -> tuple[str, str]:
    """The bucket, and the account of Azure."""
    host = ""
    if kind is Kind.AZURE and "@" in authority:
        # The name of the container stands where others have a user.
        authority, _, host = authority.rpartition("@")
        if ":" in authority:
            _refuse_user("@")
        if not _AZURE_HOST.fullmatch(host):
            raise ValueError(
                f"the host {host[:100]!r} is not <account>.dfs.core.windows.net; "
                "write abfss://container@account.dfs.core.windows.net/path"
            )
    _refuse_user(authority)
    if kind is Kind.HDFS:
        if not _HDFS_HOST.fullmatch(authority):
            raise ValueError(
                f"{authority[:100]!r} in {_excerpt(base_path)} is not a host, or a host and its port"
            )
        # A name service and its name nodes are the same storage.
        return "", ""
    pattern = _CONTAINER if kind is Kind.AZURE else _BUCKET
    if not pattern.fullmatch(authority):
        raise ValueError(
            f"{authority[:100]!r} in {_excerpt(base_path)} is not the name of a bucket; "
            f"write {kind}://bucket/path, without a port"
        )
    return authority.lower(), host.lower()


def _normalised(base_path: str, path: str) -> str:
    """The absolute ``path`` without empty parts, '.' and '..'; links are not followed."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise ValueError(f"{_excerpt(base_path)} leads above the root by '..'")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _refuse_invisible(text: str, *, within: bool = False) -> None:
    if _CONTROL.search(text):
        raise ValueError(f"the base path has a control character: {text[:100]!r}")
    if not within and text != text.strip():
        raise ValueError(f"the base path begins or ends with white space: {text[:100]!r}")


def _refuse_user(authority: str) -> None:
    if "@" in authority:
        # Not repeated in the message: it is a secret, perhaps.
        raise ValueError(
            "the base path has a user or a password in it, and would be in the table's log for good; "
            "give credentials to clients and servers instead"
        )


def _is_web(match: re.Match[str]) -> bool:
    return match["scheme"].lower() in ("http", "https")


def _excerpt(base_path: str) -> str:
    """The base path for a message, without what may be a secret."""
    head, at, tail = base_path[:300].rpartition("@")
    return repr(f"…@{tail}" if at and "://" in head else base_path[:200])
