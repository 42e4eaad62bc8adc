"""Downloads: one button a file, disabled with its reason where the run lacks what the file needs."""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import gradio as gr

from profiling.export import EXPORTERS
from profiling.format import format_bytes
from profiling.report import Analysis
from ui.markup import Markup, element
from ui.panels.panel import Panel, Values
from ui.view import RunView

# Gradio copies a served file into its own cache while it answers, so a folder is only needed for that long.
KEEP_S = 3600.0
# One a user: on a shared machine another's folder cannot be written to.
_ROOT = Path(tempfile.gettempdir()) / f"attnscope-downloads-{os.getuid()}"


def write_files(analysis: Analysis) -> dict[str, Path]:
    """Every file that ``analysis`` can give, in a fresh folder of its own, by the exporter's slug."""
    _ROOT.mkdir(exist_ok=True)
    _remove_old(_ROOT)
    folder = Path(tempfile.mkdtemp(dir=_ROOT))
    files = {}
    for exporter in EXPORTERS:
        data = exporter.write(analysis)
        if data is not None:
            files[exporter.slug] = folder / exporter.file_name
            files[exporter.slug].write_bytes(data)
    return files


def _remove_old(root: Path) -> None:
    for folder in root.iterdir():
        try:
            if time.time() - folder.stat().st_mtime > KEEP_S:
                shutil.rmtree(folder, ignore_errors=True)
        except FileNotFoundError:
            continue  # another run removed it at the same moment


def render(view: RunView) -> Values:
    """For each exporter its button's update and the line beside it."""
    files = write_files(view.analysis)
    values: list[Any] = []
    for exporter in EXPORTERS:
        path = files.get(exporter.slug)
        values += [
            gr.update(value=None if path is None else str(path), interactive=path is not None),
            _render_line(exporter.title, exporter.lacks(view.analysis), path),
        ]
    return tuple(values)


def _render_line(title: str, reason: str | None, path: Path | None) -> Markup:
    if path is None:
        return element("p", f"{title}. ", element("span", f"Not available: {reason}", class_="warn"), class_="att")
    return element("p", f"{title}. {format_bytes(path.stat().st_size)}", class_="att")


def layout(values: Values | None) -> tuple[gr.components.Component, ...]:
    made: list[gr.components.Component] = []
    with gr.Column(elem_id="downloads-list"):
        for position, exporter in enumerate(EXPORTERS):
            update, line = values[2 * position : 2 * position + 2] if values else ({"value": None}, "")
            with gr.Row():
                made.append(
                    gr.DownloadButton(
                        exporter.file_name,
                        value=update["value"],
                        interactive=update["value"] is not None,
                        size="sm",
                        scale=0,
                        min_width=240,
                        elem_id=f"download-{exporter.slug}",
                    )
                )
                made.append(gr.HTML(line, apply_default_css=False))
    return tuple(made)


PANEL = Panel(slug="downloads", title="Downloads", render=render, layout=layout)
