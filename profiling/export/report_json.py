"""The report with stable keys: times in ns, sizes in bytes, shares 0-1, null for what was not recorded."""

from profiling.export.exporter import Exporter
from profiling.report import Analysis
from profiling.report_schema import write_report


def write_report_json(analysis: Analysis) -> bytes:
    return write_report(analysis.report)


EXPORTER = Exporter(
    slug="report_json",
    title="Every number of the report, for programs",
    file_name="report.json",
    media_type="application/json",
    encode=write_report_json,
)
