"""A file that a visitor brings, read in the web process: without torch, within a size and a time."""

from pathlib import Path

from profiling.report import Analysis, analyze_file
from profiling.time_limit import OutOfTime, run_within
from profiling.trace.parse import InvalidTrace

# Larger traces open in no viewer either, and the server parses a file in memory.
MAX_FILE_BYTES = 200 * 2**20
MAX_FILE_TEXT = "200 MB"
# A million events take seconds; what takes this long on two busy cores is no trace that a page can show.
READ_LIMIT_S = 60.0
HINT = "Give a trace that torch.profiler wrote (.json or .json.gz), or a recording.json.gz from Downloads."


class UnopenedFile(ValueError):
    """The file could not be read; one line for the person who brought it."""


def open_file(path: str, label: str = "") -> Analysis:
    """The analysis of the file at ``path``; ``label``: the record_function label around each call, empty: the default.

    Raises:
        UnopenedFile: gone, too large, not a trace or recording, or still not read when the time was up.
    """
    try:
        size = Path(path).stat().st_size
        data = Path(path).read_bytes() if size <= MAX_FILE_BYTES else b""
    except OSError as error:
        # Without the error's path, which is the server's own.
        raise UnopenedFile(f"The file is no longer on the server ({error.strerror}); upload it again.") from error
    if size > MAX_FILE_BYTES:
        raise UnopenedFile(
            f"The file has {size / 2**20:,.0f} MB and {MAX_FILE_TEXT} are allowed; give it as .json.gz, or record "
            "fewer steps."
        )
    try:
        return run_within(READ_LIMIT_S, lambda: analyze_file(data, label.strip() or None))
    except InvalidTrace as problem:
        raise UnopenedFile(str(problem)) from problem
    except OutOfTime as problem:
        raise UnopenedFile(
            f"The file was not read within {READ_LIMIT_S:g} s; record fewer steps, or read it with "
            "`python -m profiling analyze`, which has no limit."
        ) from problem
