"""Tests that share an instance run one after the other on one worker, so that it is made once."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
pytestmark = pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_one(number): pass
"""


def test_tests_of_a_group_run_on_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(TESTS)
    options = ["-n", "2", "--dist", "loadgroup", "-v", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        # This test may itself run on a worker.
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    workers = [line.split("]")[0] for line in done.stdout.splitlines() if "PASSED" in line]
    assert len(workers) == 6, done.stdout
    assert len(set(workers)) == 1, done.stdout
