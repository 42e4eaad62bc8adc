"""Every other download in one zip file; equal analyses give equal bytes."""

import io
import zipfile
from collections.abc import Sequence
from functools import partial

from profiling.export.exporter import Exporter
from profiling.report import Analysis

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the zip format's first moment: a date of writing would change the bytes


def build_bundle(files: Sequence[Exporter]) -> Exporter:
    """The exporter of a zip that holds every one of ``files``."""
    return Exporter(
        slug="bundle",
        title="All of these in one file, for a bug report",
        file_name="attnscope.zip",
        media_type="application/zip",
        encode=partial(write_bundle, files),
    )


def write_bundle(files: Sequence[Exporter], analysis: Analysis) -> bytes:
    """A zip of those ``files`` that ``analysis`` can give, under ``attnscope/``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for exporter in files:
            data = exporter.write(analysis)
            if data is not None:
                archive.writestr(_entry(exporter), data)
    return buffer.getvalue()


def _entry(exporter: Exporter) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(f"attnscope/{exporter.file_name}", date_time=_EPOCH)
    compressed = exporter.media_type == "application/gzip"
    entry.compress_type = zipfile.ZIP_STORED if compressed else zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, on every platform
    entry.external_attr = 0o644 << 16
    return entry
