"""The end of a run's log tells why it failed."""

import subprocess
import sys
from pathlib import Path

from tests.failures import failures, gist

TESTS = """
def test_good(): pass
def test_short(): assert 1 == 2, "one is not two"
def test_long():
    lines = [f"line {number}" for number in range(40)]
    lines[20] = "error: the reason"
    raise RuntimeError("\\n".join(lines))
"""


def test_names_each_failed_test_with_the_gist_of_its_message(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    report = tmp_path / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(tmp_path), f"--junit-xml={report}"]
    subprocess.run([sys.executable, "-m", "pytest", *options, str(tmp_path)], capture_output=True, check=False)
    told = list(failures(report))
    assert [line for line in told if "::" in line] == [
        "test_some.py::test_short (failure)",
        "test_some.py::test_long (failure)",
    ]
    assert any("one is not two" in line for line in told)
    assert any("error: the reason" in line for line in told)
    assert any("line 39" in line for line in told)
    assert not any("line 10" in line for line in told)


def test_a_report_that_is_not_there_or_cut_off_is_nothing(tmp_path: Path) -> None:
    assert list(failures(tmp_path / "none.xml")) == []
    (tmp_path / "half.xml").write_text("<testsuite><testcase")
    assert list(failures(tmp_path / "half.xml")) == []


def test_a_short_message_is_told_whole() -> None:
    assert gist("source\nE   one\nE   two\nfile:3: Error") == ["one", "two"]
