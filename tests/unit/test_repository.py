"""The files around the code: the Space's front matter, requirements, licence, links and plain text."""

import re
import subprocess
import tomllib
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
TEST_DATA = ROOT / "tests" / "data"

# Written as patterns so that this file does not name what it forbids.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:root|work|home/[a-z]\w*|Users/\w+)/")
REGISTRY_HOST = re.compile(r"pypi\.org|pythonhosted\.org|\bdebian\.org|npmjs\.(?:org|com)|--(?:extra-)?index-url")
RELATIVE_LINK = re.compile(r"!?\[[^\]]*\]\((?!https?:|#|mailto:)([^)#\s]+)")
IGNORED_FOLDERS = {".git", ".venv", "build", "__pycache__"}

# https://huggingface.co/docs/hub/spaces-config-reference: the colours and hardware that a Space's card may name.
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
SHORT_DESCRIPTION_LIMIT = 60


def repository_files() -> list[Path]:
    """Every file of the repository; outside a Git checkout, every file that is no cache."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        files = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        files = [
            path
            for path in ROOT.rglob("*")
            if not any(part in IGNORED_FOLDERS or part.endswith("_cache") for part in path.relative_to(ROOT).parts)
        ]
    return sorted(path for path in files if path.is_file())


def is_text(data: bytes) -> bool:
    return b"\0" not in data


def unpack(data: bytes) -> bytes:
    """What a gzip file holds, up to where it is whole: some test traces are cut off or damaged on purpose."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data)
    except zlib.error:
        return b""


def requirements(name: str) -> list[Requirement]:
    lines = (line.split("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("-r ")]


@pytest.fixture(scope="module")
def front_matter() -> dict[str, Any]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.match(r"---\n(.*?)\n---\n", text, flags=re.DOTALL)
    assert found, "README.md must begin with the Space's front matter between two lines of ---"
    values = yaml.safe_load(found.group(1))
    assert isinstance(values, dict)
    return values


def test_front_matter_names_the_space(front_matter: dict[str, Any]) -> None:
    assert front_matter["title"] == "AttnScope"
    assert front_matter["emoji"]
    assert front_matter["colorFrom"] in COLOURS
    assert front_matter["colorTo"] in COLOURS
    assert front_matter["license"] == "apache-2.0"
    assert front_matter["pinned"] is False
    assert front_matter["tags"]


def test_front_matter_says_how_to_run_the_space(front_matter: dict[str, Any]) -> None:
    assert front_matter["sdk"] == "gradio"
    # Unquoted, YAML reads 3.10 as the number 3.1.
    assert front_matter["python_version"] == "3.12"
    assert front_matter["suggested_hardware"] == "zero-a10g"
    assert (ROOT / front_matter["app_file"]).is_file(), f"app_file: {front_matter['app_file']} is not in the repository"


def test_short_description_fits_the_hub(front_matter: dict[str, Any]) -> None:
    description = front_matter["short_description"]
    assert 1 <= len(description) <= SHORT_DESCRIPTION_LIMIT, (
        f"short_description has {len(description)} characters; the Hub takes at most {SHORT_DESCRIPTION_LIMIT}"
    )


def test_sdk_version_is_one_that_the_requirements_allow(front_matter: dict[str, Any]) -> None:
    sdk_version = front_matter["sdk_version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", sdk_version), f"sdk_version={sdk_version!r} must be a whole version, x.y.z"
    (gradio,) = [requirement for requirement in requirements("requirements.txt") if requirement.name == "gradio"]
    assert gradio.specifier.contains(sdk_version), f"requirements.txt asks for {gradio}, the Space runs {sdk_version}"
    installed = version("gradio")
    assert sdk_version.split(".")[0] == installed.split(".")[0], (
        f"the tests run on gradio {installed} and the Space on {sdk_version}: another major version"
    )


def test_requirements_leave_the_versions_to_the_space() -> None:
    found = {requirement.name: requirement for requirement in requirements("requirements.txt")}
    assert {"torch", "gradio", "huggingface_hub", "spaces", "plotly"} <= found.keys()
    # ZeroGPU offers its own range of torch builds; a pin or a marker outside it stops the Space from building.
    assert not str(found["torch"].specifier), f"torch must stand without a version: {found['torch']}"
    pinned = [str(requirement) for requirement in found.values() if "==" in str(requirement.specifier)]
    assert not pinned, f"requirements.txt may hold bare names and lower bounds only: {pinned}"


def test_every_requirement_says_why() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    silent = [line for line in lines if line and not line.startswith("#") and "  # " not in line]
    assert not silent, f"requirements.txt: add a comment with the reason to {silent}"


def test_python_range_ends_before_the_standard_library_takes_the_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11,<3.15"
    assert project["license"] == "Apache-2.0"


def test_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert re.search(r"Apache License\s+Version 2\.0, January 2004", text)
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_relative_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    broken = [link for link in RELATIVE_LINK.findall(text) if not (ROOT / link).exists()]
    assert not broken, f"{name} links to files that are not there: {broken}"


def test_text_is_utf8_with_unix_line_ends() -> None:
    faults = []
    for path in repository_files():
        data = path.read_bytes()
        # Test data holds broken text on purpose.
        if TEST_DATA in path.parents or not is_text(data):
            continue
        name = path.relative_to(ROOT)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            faults.append(f"{name}: not UTF-8 at byte {error.start}")
        if b"\r\n" in data:
            faults.append(f"{name}: Windows line ends")
        if data and not data.endswith(b"\n"):
            faults.append(f"{name}: no line end at the end")
    assert not faults, "\n".join(faults)


def test_no_file_names_a_machine_or_a_registry() -> None:
    faults = []
    for path in repository_files():
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = unpack(data)
        if not is_text(data):
            continue
        text = data.decode("utf-8", errors="replace")
        for pattern in (MACHINE_PATH, REGISTRY_HOST):
            found = pattern.search(text)
            if found:
                line = text.count("\n", 0, found.start()) + 1
                faults.append(f"{path.relative_to(ROOT)}:{line}: {found.group(0)}")
    assert not faults, "\n".join(faults)


def test_shell_scripts_can_be_run() -> None:
    script = ROOT / ".ci" / "run"
    assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    assert script.stat().st_mode & 0o111, ".ci/run is not executable"
    subprocess.run(["bash", "-n", str(script)], check=True)
