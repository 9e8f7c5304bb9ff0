"""The shared vocabulary of Chronolake: words, times, names of files, and the bodies of the REST API.

Pure: msgspec and the standard library's calendar, no I/O, no clock, no randomness. Server, client and
Spark integration all speak through it, so that a word means the same thing in each.
"""

from __future__ import annotations
