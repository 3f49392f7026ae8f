"""`make policy` runs what CI runs, in the shell's own environment, and says by which rules."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.ci.test_examples import CHECKOUT, COMMANDS

#: Stands in for Pulumi: tells what it is asked for and in which environment, and knows the stacks of $STACKS only.
PULUMI = """#!/bin/sh
case "$1" in whoami) echo "Backend URL: https://logged-in.example"; exit 0 ;; esac
[ "$1" != preview ] || {
  echo "pulumi $*"
  echo "PATH=$PATH"
  env | grep -E "^(PULUMI_|KUBECONFIG)" | sort
}
case " $STACKS " in *" $STACK "*) exit "${CODE:-0}" ;; esac
echo "error: no stack named '$STACK' found" >&2
exit 255
"""
#: Stands in for the Python that tells the local platform's environment.
PYTHON = """#!/bin/sh
[ "$*" = "-m local env" ] || exit 9
echo "export KUBECONFIG=/local/kubeconfig"
echo "export PATH='{folder}:'$PATH"
echo "export PULUMI_HOME=/local/home"
echo "export PULUMI_BACKEND_URL='file:///local?metadata=skip'"
echo "export PULUMI_CONFIG_PASSPHRASE=''"
echo "unset PULUMI_CONFIG_PASSPHRASE_FILE"
"""
LOCAL = {
    "KUBECONFIG=/local/kubeconfig",
    "PULUMI_HOME=/local/home",
    "PULUMI_BACKEND_URL=file:///local?metadata=skip",
    "PULUMI_CONFIG_PASSPHRASE=",
}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with both."""
    for name, text in (("pulumi", PULUMI), ("python", PYTHON.replace("{folder}", str(tmp_path)))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(tools: Path, *, on_path: bool = True, stacks: str = "dev prod local", **variables: str) -> Mapping[str, str]:
    """Code, output and errors of `make policy`, where STACK and PROFILE are words of its command line."""
    words = [f"{name}={variables.pop(name)}" for name in ("STACK", "PROFILE") if name in variables]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI", "KUBE", "MAKE"))}
    for name in ("STACK", "PROFILE"):
        clean.pop(name, None)
    # Without whatever pulumi this shell has.
    path = "/usr/bin:/bin"
    done = subprocess.run(
        ["make", "-s", "policy", f"PY={tools / 'python'}", *words],
        cwd=CHECKOUT,
        env={**clean, "PATH": f"{tools}:{path}" if on_path else path, "STACKS": stacks, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return {"code": str(done.returncode), "out": done.stdout, "err": done.stderr}


@pytest.mark.parametrize(
    ("stack", "profile", "rules"),
    [("prod", "", "prod"), ("local", "", "dev"), ("", "", "dev"), ("dev", "prod", "prod")],
)
def test_it_runs_what_ci_runs_and_says_by_which_rules(tools: Path, stack: str, profile: str, rules: str) -> None:
    words = {name: value for name, value in (("STACK", stack), ("PROFILE", profile)) if value}
    ran = run(tools, **words)
    name = stack or "local"
    wanted = COMMANDS["preview"].replace('"$STACK"', name).replace('"policies/profiles/$STACK.json"', "")
    assert ran["out"].splitlines()[0] == f"{wanted.strip()} policies/profiles/{rules}.json"
    assert ran["err"] == f"Stack {name}, judged by policies/profiles/{rules}.json\n"
    assert ran["code"] == "0"


@pytest.mark.parametrize("words", [{"STACK": "prod-eu"}, {"STACK": "prod", "PROFILE": "prodd"}])
def test_a_stack_without_rules_is_refused(tools: Path, words: dict[str, str]) -> None:
    ran = run(tools, **words)
    assert ran["code"] == "2"
    assert ran["out"] == ""
    stack, missing = words["STACK"], words.get("PROFILE", words["STACK"])
    assert f"policies/profiles/{missing}.json doesn't exist" in ran["err"]
    assert "(there are dev prod staging)" in ran["err"]
    assert f"make policy STACK={stack} PROFILE=dev" in ran["err"]
    assert f"cp policies/profiles/dev.json policies/profiles/{stack}.json" in ran["err"]


@pytest.mark.parametrize("on_path", [True, False])
def test_the_projects_python_comes_first(tools: Path, on_path: bool) -> None:  # noqa: FBT001
    lines = run(tools, on_path=on_path)["out"].splitlines()
    path = next(line for line in lines if line.startswith("PATH="))
    assert path.startswith(f"PATH={CHECKOUT / '.venv' / 'bin'}:{tools}:")


def test_without_a_pulumi_it_takes_the_local_platforms(tools: Path) -> None:
    assert set(run(tools, on_path=False)["out"].splitlines()[2:]) == LOCAL


def test_with_a_pulumi_the_environment_is_the_shells(tools: Path) -> None:
    assert run(tools, PULUMI_HOME="/mine")["out"].splitlines()[2:] == ["PULUMI_HOME=/mine"]


@pytest.mark.parametrize(
    "variable", ["KUBECONFIG", "PULUMI_HOME", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"]
)
def test_what_is_set_holds(tools: Path, variable: str) -> None:
    told = set(run(tools, on_path=False, **{variable: "/mine"})["out"].splitlines()[2:])
    replaced = variable.removesuffix("_FILE")
    assert told == {line for line in LOCAL if not line.startswith(f"{replaced}=")} | {f"{variable}=/mine"}


def test_with_a_backend_that_is_set_nothing_is_the_local_clusters(tools: Path) -> None:
    told = run(tools, on_path=False, PULUMI_BACKEND_URL="s3://mine")["out"].splitlines()[2:]
    assert told == ["PULUMI_BACKEND_URL=s3://mine", "PULUMI_HOME=/local/home"]


@pytest.mark.parametrize(
    ("on_path", "variables", "backend", "command"),
    [
        (True, {"PULUMI_BACKEND_URL": "s3://mine"}, "s3://mine", "pulumi stack init dev"),
        (True, {}, "https://logged-in.example", "pulumi stack init dev"),
        (False, {}, "file:///local?metadata=skip", 'eval "$(make -s env)" && pulumi stack init dev'),
        (False, {"PULUMI_BACKEND_URL": "s3://mine"}, "s3://mine", 'PATH="{tools}:$PATH" pulumi stack init dev'),
    ],
)
def test_of_a_missing_stack_it_says_which_backend_was_asked(
    tools: Path,
    on_path: bool,  # noqa: FBT001
    variables: dict[str, str],
    backend: str,
    command: str,
) -> None:
    ran = run(tools, on_path=on_path, stacks="prod", STACK="dev", **variables)
    assert ran["code"] == "2"  # make's own
    *_, asked, init = (line for line in ran["err"].splitlines() if not line.startswith("make"))
    assert f"The backend that was asked: {backend}." in asked
    assert init.strip() == command.replace("{tools}", str(tools))


def test_a_preview_that_fails_otherwise_speaks_for_itself(tools: Path) -> None:
    ran = run(tools, STACK="dev", CODE="3")
    assert ran["code"] == "2"
    assert "backend" not in ran["err"]
