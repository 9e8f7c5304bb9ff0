"""Commands, and the fingerprints that distinguish requests."""

from __future__ import annotations

import hashlib

import msgspec

from chronolake_model.times import Micros


class Command(msgspec.Struct, frozen=True, tag=True):
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
