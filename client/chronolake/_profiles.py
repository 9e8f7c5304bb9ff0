"""Profiles: the settings of servers under names, in a file of the user, which has no secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from chronolake import _credentials
from chronolake._access import NAMES, ServerAccess, access_of
from chronolake_model import decoding

_FORM: Final = (
    f"a profile has url, and may have {', '.join(NAMES[1:])}; tokens and secrets are in files of their own"
)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    profiles: dict[str, dict[str, str]] = {}


def read(name: str) -> ServerAccess:
    """The profile of this name. Raises ``ValueError``. Relative paths are below the folder of the file."""
    import tomllib  # noqa: PLC0415  # most programs have no profile

    path = file_path()
    try:
        profiles = decoding.convert(tomllib.loads(path.read_text("utf-8")), _File).profiles
    except OSError as exc:
        raise ValueError(f"the profile {name!r}: {path} cannot be read: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as exc:
        raise ValueError(f"{path}: {exc}; {_FORM}") from exc
    if name not in profiles:
        raise ValueError(
            f"there is no profile {name!r} in {path}; it has {', '.join(sorted(profiles)) or 'none'}"
        )
    settings = profiles[name]
    unknown = sorted(settings.keys() - set(NAMES))
    if unknown or "url" not in settings:
        fault = f"unknown: {', '.join(unknown)}" if unknown else "url is missing"
        raise ValueError(f"the profile {name!r} in {path}: {fault}; {_FORM}")
    of_files = {
        key: str(path.parent / Path(text).expanduser())
        for key, text in settings.items()
        if key.endswith("_file")
    }
    try:
        _credentials.refuse_in_url(settings["url"])
        return access_of(settings | of_files)
    except ValueError as exc:
        raise ValueError(f"the profile {name!r} in {path}: {exc}") from exc


def file_path() -> Path:
    """The file of this user's profiles. Raises ``ValueError`` if the user has no home."""
    # By the specification of XDG, a relative path is ignored.
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        folder = configured if configured.is_absolute() else Path.home() / ".config"
    except RuntimeError as exc:
        raise ValueError("profiles need a home folder: set HOME or XDG_CONFIG_HOME") from exc
    return folder / "chronolake" / "config.toml"
