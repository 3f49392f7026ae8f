"""What was measured is kept: one JSON file a measurement and day in `bench/results/`, with what it was measured on."""

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def save(name: str, samples: Sequence[Any], **more: object) -> None:
    """Write the samples, dataclasses each, and whatever else belongs to them; a file of the same day is replaced."""
    RESULTS.mkdir(exist_ok=True)
    record = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        **more,
        "samples": [asdict(sample) for sample in samples],
    }
    path = RESULTS / f"{name}-{time.strftime('%Y-%m-%d')}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"kept in {path}")
