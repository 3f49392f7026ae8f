"""The reference is in step with the models that it is written from."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import yaml

from settings import parse

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", REFERENCE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_what_would_be_written() -> None:
    text = (REFERENCE / "stack-config.md").read_text()
    assert generator().page(text) == text


def test_every_part_is_on_the_page() -> None:
    text = (REFERENCE / "stack-config.md").read_text()
    assert sorted(re.findall(r"<!-- begin ([a-z-]+) -->", text)) == sorted(generator().PARTS)


def test_its_example_is_accepted() -> None:
    text = (REFERENCE / "stack-config.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    config = yaml.safe_load(example[1])["config"]
    problems, settings = parse({key: json.dumps(value) for key, value in config.items()})
    assert problems == []
    assert settings is not None
