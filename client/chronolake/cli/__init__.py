"""The command line ``chronolake``."""

from __future__ import annotations
