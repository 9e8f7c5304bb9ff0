"""chronolake_migrations"""

from __future__ import annotations
