"""The CI examples are what the CI systems accept, and do what the documentation says."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.progress import Progress
from local.toolchain import build, golang, recipes

CHECKOUT = Path(__file__).parents[3]
GITHUB = CHECKOUT / "examples" / "ci" / "github-actions.yml"
GITLAB = CHECKOUT / "examples" / "ci" / "gitlab-ci.yml"
#: The three commands, as both examples run them.
COMMANDS = {
    "preview": 'pulumi preview --stack "$STACK" --non-interactive --diff '
    '--policy-pack policies --policy-pack-config "policies/profiles/$STACK.json"',
    "up": 'pulumi up --stack "$STACK" --yes --non-interactive '
    '--policy-pack policies --policy-pack-config "policies/profiles/$STACK.json"',
    "drift": 'pulumi refresh --stack "$STACK" --preview-only --expect-no-changes --non-interactive',
}


def github_commands() -> dict[str, str]:
    """The command of each job's step that is called as one of ours."""
    jobs: dict[str, Any] = yaml.safe_load(GITHUB.read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    return {step["name"]: step["run"] for step in steps if step.get("name") in COMMANDS}


def gitlab_commands() -> dict[str, str]:
    jobs: dict[str, Any] = yaml.safe_load(GITLAB.read_text())
    return {name: jobs[job]["script"][0] for name, job in (("preview", "preview"), ("up", ".up"), ("drift", "drift"))}


@pytest.fixture(scope="module")
def actionlint() -> Path:
    """Found in the cache, or built into it."""
    progress = Progress()
    build.ensure(recipes.ACTIONLINT, golang.find(progress), progress, label="Building actionlint")
    return build.entry_of(recipes.ACTIONLINT) / "actionlint"


def lint(actionlint: Path, workflow: Path) -> subprocess.CompletedProcess[str]:
    # Without the two linters of scripts, which a machine may have or not.
    command = [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", workflow]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_actionlint_accepts_the_workflow(actionlint: Path) -> None:
    done = lint(actionlint, GITHUB)
    assert (done.returncode, done.stdout) == (0, "")


def test_actionlint_would_find_a_mistake(actionlint: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "workflow.yml"
    spoilt.write_text(GITHUB.read_text().replace("matrix.stack", "matrix.stick"))
    assert '"stick" is not defined' in lint(actionlint, spoilt).stdout


def check_gitlab(pipeline: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci"]
    command += ["--data-transform", "gitlab-ci", str(pipeline)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_gitlabs_own_schema_accepts_the_pipeline() -> None:
    done = check_gitlab(GITLAB)
    assert done.returncode == 0, done.stdout


def test_gitlabs_own_schema_would_find_a_mistake(tmp_path: Path) -> None:
    spoilt = tmp_path / "pipeline.yml"
    spoilt.write_text(GITLAB.read_text().replace("action: prepare", "action: prepared"))
    assert check_gitlab(spoilt).returncode == 1


def test_what_jobs_of_the_pipeline_refer_to_is_there() -> None:
    """The schema doesn't look at names."""
    jobs: dict[str, Any] = yaml.safe_load(GITLAB.read_text())
    stages = jobs.pop("stages")
    for name, job in jobs.items():
        assert job.get("extends", ".pulumi") in jobs
        if not name.startswith("."):
            assert job["stage"] in stages


@pytest.mark.parametrize("commands", [github_commands, gitlab_commands])
def test_both_run_the_same_commands(commands: Any) -> None:
    assert commands() == COMMANDS


def test_every_environment_has_a_stack_and_a_profile() -> None:
    matrix = yaml.safe_load(GITHUB.read_text())["jobs"]["preview"]["strategy"]["matrix"]["stack"]
    assert matrix == yaml.safe_load(GITLAB.read_text())["preview"]["parallel"]["matrix"][0]["STACK"]
    for stack in matrix:
        assert (CHECKOUT / "stacks" / f"Pulumi.{stack}.yaml").exists()
        assert (CHECKOUT / "policies" / "profiles" / f"{stack}.json").exists()
