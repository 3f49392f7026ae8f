"""Writes the rules into policies/README.md; a test says whether they are in step."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "policies" / "README.md"
sys.path.insert(0, str(CHECKOUT))

from policies.model import COMMON, Rule  # noqa: E402
from policies.rules import RULES  # noqa: E402

ENVIRONMENTS = ("dev", "staging", "prod")


def page(text: str) -> str:
    """The page with its rules written anew."""
    lines = "\n".join(_rules())
    return re.sub(
        r"(<!-- begin rules -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{lines}\n{found[2]}",
        text,
        flags=re.DOTALL,
    )


def _rules() -> Iterator[str]:
    profiles = {name: json.loads((PAGE.parent / "profiles" / f"{name}.json").read_text()) for name in ENVIRONMENTS}
    yield "Every rule has " + " and ".join(f"`{name}` ({one.schema['description']})" for name, one in COMMON.items())
    for rule in RULES:
        levels = ", ".join(f"{name} {profiles[name][rule.name]['enforcementLevel']}" for name in ENVIRONMENTS)
        yield from ("", f"### {rule.name}", "", f"{rule.title} *{_kind(rule)}; {levels}*", "")
        yield f"- Why: {rule.reason}."
        yield f"- Do: {rule.remedy}."
        for name, parameter in rule.parameters.items():
            yield f"- `{name}`, by default `{json.dumps(parameter.default)}`: {parameter.schema['description']}"


def _kind(rule: Rule) -> str:
    return "resource" if rule.check else "stack"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
