"""Commands, and the fingerprints that distinguish requests."""

from __future__ import annotations

import hashlib
import re

import msgspec

from chronolake_metastore import errors
from chronolake_model.times import Micros

# An escaped NUL: an odd number of backslashes before u0000. PostgreSQL cannot store it.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class Command(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A change that a request asks for. Each kind has a handler (``commands/registry.py``)."""

    def identity(self) -> Command:
        """The command without the parts that may differ when the same request is sent again."""
        return self


class InstantCommand(Command, frozen=True):
    """A command that names one instant of one table."""

    table: str
    requested_time: Micros


def canonical(command: Command) -> bytes:
    """The command in canonical form."""
    return msgspec.json.encode(command.identity(), order="sorted")


def fingerprint(canonical_command: bytes) -> bytes:
    """16 bytes that two requests share only if they ask for the same change of the same object."""
    return hashlib.blake2b(canonical_command, digest_size=16).digest()


def refuse_nul(document: bytes) -> None:
    """Raise ``InvalidRequest`` if a text of a JSON document has a character that PostgreSQL cannot store."""
    if b"\\u0000" in document and _NUL.search(document):
        raise errors.InvalidRequest("a text contains the character U+0000, which cannot be stored")
