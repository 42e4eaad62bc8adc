"""The kernel table as CSV: one row a device item of one name and launch shape, raw numbers, units in the header.

An empty cell means not recorded. Text that a spreadsheet would run as a formula gets a leading apostrophe:
kernel and operator names come from the trace, and a trace can come from anybody.
Source: https://owasp.org/www-community/attacks/CSV_Injection
"""

import csv
import io

from profiling.export.exporter import Exporter
from profiling.report import Analysis
from profiling.report_schema import KernelSummary

COLUMNS = (
    "name",
    "short_name",
    "kind",
    "role",
    "family",
    "calls",
    "calls_per_step",
    "device_time_ns",
    "mean_ns",
    "min_ns",
    "max_ns",
    "share_of_device_time",
    "grid",
    "block",
    "registers_per_thread",
    "shared_memory_bytes",
    "bytes",
    "occupancy_reported",
    "occupancy_recomputed",
    "occupancy_limiter",
    "uses_tensor_cores",
    "launched_by",
    "description",
    "data_type",
    "tile",
    "occupancy_note",
)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_kernels_csv(analysis: Analysis) -> bytes:
    """UTF-8 with the line ends of RFC 4180."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for kernel in analysis.report.kernels:
        table.writerow(_row(kernel))
    return text.getvalue().encode("utf-8", errors="replace")


def _row(kernel: KernelSummary) -> list[str | int | float]:
    return [_cell(getattr(kernel, column)) for column in COLUMNS]


def _cell(value: object) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "x".join(str(extent) for extent in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return value
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


def _needs(analysis: Analysis) -> str | None:
    if not analysis.report.kernels:
        return "No device activity was recorded, so there are no kernels to list."
    return None


EXPORTER = Exporter(
    slug="kernels_csv",
    title="The kernel table, for a spreadsheet",
    file_name="kernels.csv",
    media_type="text/csv",
    encode=write_kernels_csv,
    needs=_needs,
)
