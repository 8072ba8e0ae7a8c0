"""The same suites at two sizes: short in CI, long by `make faults`, which also keeps their figures."""

import json
import os
import random
import subprocess
from datetime import UTC, datetime
from pathlib import Path

LONG = os.environ.get("FAULTS") == "long"
FIGURES = Path(os.environ.get("FAULTS_FIGURES", "build/faults"))


def sized[T](*, short: T, long: T) -> T:
    """A size by the form that runs; a suite names both, so that nobody has to look for the other."""
    return long if LONG else short


def seeded() -> tuple[int, random.Random]:
    """A seed and its dice; `FAULTS_SEED` repeats a run."""
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(10**9))
    return seed, random.Random(seed)


def record(suite: str, *, seed: int | None = None, **figures: int | float | str) -> None:
    """Keep what the long form measured for the report; in the short form a print is enough."""
    print(suite, figures, f"seed={seed}")
    if not LONG:
        return
    FIGURES.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    kept = {
        "suite": suite,
        "figures": figures,
        "seed": seed,
        "on": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip() or "unknown",
    }
    (FIGURES / f"{suite.replace(' ', '-')}.json").write_text(json.dumps(kept, indent=1))
