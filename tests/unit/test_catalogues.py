"""Each catalogue is an explicit tuple that lists every file of its folder, with unique slugs and titles."""

import ast
import importlib
import re
from collections import Counter
from dataclasses import fields, is_dataclass
from functools import partial
from types import ModuleType

import pytest

from tests.unit.source_tree import MODULES, parse

# Catalogue -> the files beside its entries that define what an entry is, or serve all of them.
CATALOGUES = {
    "attention.masks.MASKS": {"mask", "parameters"},
    "attention.fusion.OPERATIONS": {"backends", "cost", "inputs", "operation", "reference", "workload"},
    "attention.fusion.backends.FUSION_BACKENDS": set(),
    "attention.backends.BACKENDS": {
        "backend",
        "decision",
        "flash_attn_rules",
        "paged_kernel",
        "paged_rules",
        "sdpa_rules",
    },
    "profiling.findings.RULES": {"copies", "facts", "rule", "score_size"},
    "profiling.export.EXPORTERS": {"exporter", "markdown", "markdown_checks", "markdown_measurements"},
    "ui.panels.PANELS": {"panel"},
    "profiling.commands.COMMANDS": {"command", "comparison_summary", "experiment", "outputs", "summary", "text"},
}

# What stands for a title where "title" is not the word: argparse's.
TITLES = {"profiling.commands.COMMANDS": "help"}


def load_catalogue(name: str) -> tuple[ModuleType, tuple[object, ...]]:
    module_name, attribute = name.rsplit(".", 1)
    module = importlib.import_module(module_name)
    assert hasattr(module, attribute), f"{module_name} has no {attribute}: the catalogue is an explicit tuple there"
    entries = getattr(module, attribute)
    assert isinstance(entries, tuple), f"{name} is a {type(entries).__name__}; a catalogue is a tuple"
    assert entries, f"{name} is empty"
    return module, entries


def defined_in(module: str) -> list[object]:
    """Values of the names that a module itself assigns or defines, not those that it imports."""
    loaded = importlib.import_module(module)
    names: set[str] = set()
    for node in parse(module).body:
        if isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
    return [getattr(loaded, name) for name in names if hasattr(loaded, name)]


def is_entry_of(entry: object, module: str) -> bool:
    """Whether ``module`` defines the entry, or the function that the entry runs."""
    functions = [getattr(entry, field.name) for field in fields(entry)] if is_dataclass(entry) else []
    functions = [item.func if isinstance(item, partial) else item for item in functions]
    return any(entry is value for value in defined_in(module)) or any(
        callable(function) and getattr(function, "__module__", None) == module for function in functions
    )


@pytest.mark.parametrize("name", CATALOGUES)
def test_catalogue_lists_every_file(name: str) -> None:
    package, entries = load_catalogue(name)
    if not hasattr(package, "__path__"):
        return  # the catalogue and its entries share one module
    folder = f"{package.__name__}."
    missing = []
    for module in MODULES:
        stem = module.removeprefix(folder)
        if not module.startswith(folder) or "." in stem or stem in CATALOGUES[name]:
            continue
        if not any(is_entry_of(entry, module) for entry in entries):
            missing.append(module)
    assert not missing, f"{missing} define no entry of {name}; add one line there, or the file is dead"


@pytest.mark.parametrize("name", CATALOGUES)
def test_catalogue_entries_have_a_unique_slug_and_a_title(name: str) -> None:
    _, entries = load_catalogue(name)
    slugs = []
    for entry in entries:
        slug, title = getattr(entry, "slug", None), getattr(entry, TITLES.get(name, "title"), None)
        assert isinstance(slug, str), f"{name}: {entry!r} has no slug"
        assert re.fullmatch(r"[a-z][a-z0-9_]*", slug), f"{name}: slug {slug!r} is not lower_case"
        assert isinstance(title, str), f"{name}: {slug} has no {TITLES.get(name, 'title')}"
        assert title.strip(), f"{name}: the title of {slug} is empty"
        slugs.append(slug)
    repeated = [slug for slug, count in Counter(slugs).items() if count > 1]
    assert not repeated, f"{name}: {repeated} stand in it more than once"


NAME_THEIR_SOURCE = [
    "attention.masks.MASKS",
    "attention.fusion.OPERATIONS",
    "attention.fusion.backends.FUSION_BACKENDS",
    "attention.backends.BACKENDS",
    "profiling.findings.RULES",
]


@pytest.mark.parametrize("name", NAME_THEIR_SOURCE)
def test_catalogue_entries_name_their_source(name: str) -> None:
    _, entries = load_catalogue(name)
    silent = [entry for entry in entries if not str(getattr(entry, "source", "") or "").strip()]
    assert not silent, f"{name}: without a source: {silent}"
