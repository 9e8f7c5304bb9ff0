"""How a table's storage is reached, as far as the table says so: properties that begin with ``storage.``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

PREFIX: Final = "storage."
S3_OPTIONS: Final = ("endpoint_override", "access_key", "secret_key", "session_token", "region")
"""Options of S3, by pyarrow's names; others come from the environment, as for AWS's own tools."""
CREDENTIALS_OPTION: Final = "credentials"
"""An option of clients: VENDED, if the server gives the keys."""
VENDED: Final = "vended"
SECRETS: Final = frozenset({"access_key", "secret_key", "session_token"})
"""Names that a table's properties may not have, because every client can read them in the log for good."""

_HOST: Final = r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_ENDPOINT: Final = re.compile(rf"https?://{_HOST}(:[0-9]{{1,5}})?(/[A-Za-z0-9._~/-]*)?|{_HOST}:[0-9]{{1,5}}")
_REGION: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def is_endpoint(text: str) -> bool:
    """Whether a text is the URL of an S3 endpoint, or ``host:port``."""
    return _ENDPOINT.fullmatch(text) is not None


def is_region(text: str) -> bool:
    """Whether a text may be the name of a region, of AWS or of another S3 API."""
    return _REGION.fullmatch(text) is not None


def options_of(properties: Mapping[str, str], own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The storage options in a table's properties, overridden by the caller's ``own``."""
    stated = {name.removeprefix(PREFIX): text for name, text in properties.items() if name.startswith(PREFIX)}
    return {**stated, **(own or {})}


def check_options(names: Iterable[str]) -> None:
    """Raise ``ValueError`` when one of these is no option of a storage."""
    unknown = sorted(set(names) - set(S3_OPTIONS))
    if unknown:
        raise ValueError(f"storage options are {', '.join(S3_OPTIONS)}, not {', '.join(unknown)}")


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise ``ValueError`` when a table cannot have such properties of its storage."""
    for name in properties:
        if name.lower().startswith(PREFIX) and not name.startswith(PREFIX):
            raise ValueError(
                f"properties of the storage begin with {PREFIX}, in lower case, not {name[:100]!r}"
            )
    names = set(options_of(properties))
    if secret := sorted(names & SECRETS):
        raise ValueError(
            f"the property {PREFIX}{secret[0]} would be in the table's log for good, readable for every "
            "client; pass it as a storage option, or set it in the environment"
        )
    check_options(names)
