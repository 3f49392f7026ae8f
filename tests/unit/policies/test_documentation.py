"""The pack's own page is in step with its rules and profiles."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from policies.rules import RULES

CHECKOUT = Path(__file__).parents[3]
PAGE = CHECKOUT / "policies" / "README.md"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("policies_page", CHECKOUT / "docs" / "reference" / "policies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_would_be_written() -> None:
    assert generator().page(PAGE.read_text()) == PAGE.read_text()


def test_every_link_leads_to_a_paragraph() -> None:
    headings = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    for rule in RULES:
        file, _, anchor = rule.link.partition("#")
        assert CHECKOUT / file == PAGE
        assert anchor in headings
