"""Attacks the REST API with schemathesis: `make fuzz SECONDS=600 SEED=1`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from chronolake_metastore import embedded
from chronolake_metastore.store.postgres import migrations
from tests.fix_server import ServerProcess
from tests.fuzz import attack


def main() -> int:
    """Run for ``seconds``. Returns the status of schemathesis: 0 when nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chronolake-fuzz-") as name:
        folder = Path(name)
        # Under root the embedded PostgreSQL is another user.
        folder.chmod(0o755)
        postgres = embedded.start(folder)
        server = ServerProcess(postgres.dsn, folder / "server.log")
        try:
            migrations.upgrade(postgres.dsn)
            status = attack.run(server.start(), folder, arguments.seconds, arguments.seed)
        finally:
            server.stop()
            postgres.release()
    if status:
        print(f"repeat it: make fuzz SECONDS={arguments.seconds} SEED={arguments.seed}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
