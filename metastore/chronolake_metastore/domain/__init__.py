"""The rules of Chronolake: pure functions of states, commands and events.

``decide`` functions take a state and a command and give events or raise a ``TimelineError``; ``evolve``
functions take a state and an event and give the next state. No I/O, no clock, no randomness: time, ids and
names come in by argument.
"""

from __future__ import annotations
