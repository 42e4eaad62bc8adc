"""``--json``, ``--bundle`` and ``--trace``: checked before the run, so that no run is lost to a bad path."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profiling.commands.command import EXIT_FAILED, EXIT_FINE, BadInput, CommandFailed

if TYPE_CHECKING:
    from profiling.export.exporter import Exporter
    from profiling.report import Analysis

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where results go besides standard output; ``json_only`` leaves nothing but JSON there."""

    json_only: bool = False
    json_file: Path | None = None
    bundle_folder: Path | None = None
    trace_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One note a file, and what that makes the command's exit code: a file that fails takes nothing else with it."""

    notes: tuple[str, ...]
    exit_code: int


def add_json_argument(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", metavar="FILE", help=f"write {what} as JSON; - prints nothing but JSON")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", metavar="DIR", help="write every download into this folder")
    parser.add_argument("--trace", metavar="FILE", help="write the trace as the profiler wrote it (.json.gz)")


def parse_outputs(arguments: argparse.Namespace) -> Outputs:
    """Raises: BadInput: a path cannot be written."""
    json_path, bundle, trace = arguments.json, getattr(arguments, "bundle", None), getattr(arguments, "trace", None)
    to_standard_output = json_path == STANDARD_OUTPUT
    return Outputs(
        json_only=to_standard_output,
        json_file=None if json_path is None or to_standard_output else _writable_file("json", json_path),
        bundle_folder=None if bundle is None else _writable_folder("bundle", bundle),
        trace_file=None if trace is None else _writable_file("trace", trace),
    )


def write_files(outputs: Outputs, analysis: "Analysis") -> Written:
    """Write what was asked for; one line a file, also for one that ``analysis`` cannot give or the disk refuses."""
    # Late: `--help` needs none of the exporters.
    from profiling.export import EXPORTERS
    from profiling.export.chrome_trace import EXPORTER as CHROME_TRACE
    from profiling.export.report_json import EXPORTER as REPORT_JSON

    wanted: list[tuple[Exporter, Path]] = []
    if outputs.json_file is not None:
        wanted.append((REPORT_JSON, outputs.json_file))
    if outputs.trace_file is not None:
        wanted.append((CHROME_TRACE, outputs.trace_file))
    if outputs.bundle_folder is not None:
        wanted += [(exporter, outputs.bundle_folder / exporter.file_name) for exporter in EXPORTERS]
    notes, exit_code = [], EXIT_FINE
    for exporter, path in wanted:
        try:
            notes.append(_write(exporter, path, analysis))
        except CommandFailed as problem:
            notes.append(str(problem))
            exit_code = EXIT_FAILED
    return Written(notes=tuple(notes), exit_code=exit_code)


def write_bytes(path: Path, data: bytes) -> str:
    """Raises: CommandFailed."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CommandFailed(f"{str(path)!r} could not be written: {error.strerror}.") from error
    return f"wrote {path}"


def _write(exporter: "Exporter", path: Path, analysis: "Analysis") -> str:
    data = exporter.write(analysis)
    if data is None:
        older = " The file of this name is from an earlier run." if path.exists() else ""
        return f"not written: {path}. {exporter.lacks(analysis)}{older}"
    return write_bytes(path, data)


def _writable_file(flag: str, text: str) -> Path:
    path = Path(text)
    folder = path.parent
    try:
        if not text or path.is_dir():
            raise BadInput(f"{flag}={text!r} is not a file; name a file in an existing folder.")
        if not folder.is_dir():
            raise BadInput(f"{flag}={text!r} lies in no existing folder; make {str(folder)!r} first or choose another.")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise BadInput(f"{flag}={text!r} cannot be written; choose a folder that you may write to.")
    except OSError as error:  # such as a name that is too long for the disk
        raise BadInput(f"{flag}={text!r} cannot be a file ({error.strerror}); choose another name.") from error
    return path


def _writable_folder(flag: str, text: str) -> Path:
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{flag}={text!r} cannot be made a folder ({error.strerror}); choose another.") from error
    if not text or not os.access(path, os.W_OK):
        raise BadInput(f"{flag}={text!r} cannot be written; choose a folder that you may write to.")
    return path
