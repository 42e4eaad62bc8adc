"""What changes the report besides a live run: the gallery, a file of the visitor's, and the run it is compared with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from profiling.recording import Recording
from profiling.report import analyze_recording
from ui.components.notice import render_message
from ui.gallery import GalleryEntry
from ui.kept_runs import KeptRuns
from ui.markup import Markup
from ui.opened_file import HINT, UnopenedFile, open_file
from ui.panels import compare_traces
from ui.report_view import ReportView, render_values
from ui.sources import Sources
from ui.view import Origin, RunView

Updates = dict[Any, Any]


class ReportEvents:
    """Which run a visitor's page shows, and which one it is compared with.

    ``shown`` and ``against`` are keys of KeptRuns in the visitor's own state; empty where there is none.
    """

    def __init__(self, gallery: Sequence[GalleryEntry], sources: Sources, report: ReportView) -> None:
        self.sources = sources
        self.report = report
        self.slugs = frozenset(entry.slug for entry in gallery)
        self.kept = KeptRuns(gallery)
        self.shown = gr.State(gallery[0].slug if gallery else "")
        self.against = gr.State("")

    def connect(self) -> None:
        """Declares the events, inside the Blocks that is being built."""
        sources, baseline = self.sources, self.report.baseline
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        # Gradio's own choice drops what is chosen while the one before it is still being read, and says nothing.
        private["trigger_mode"] = "always_last"
        outputs = [self.shown, sources.picker, *self.report.components]
        sources.picker.input(self._pick, inputs=[sources.picker, self.against], outputs=outputs, **private)
        sources.upload.upload(
            self._open, inputs=[sources.upload, sources.label, self.against], outputs=outputs, **private
        )
        sources.label.submit(
            self._relabel, inputs=[self.shown, sources.label, self.against], outputs=outputs, **private
        )
        compared = [self.against, baseline.picker, self.report.comparison]
        baseline.picker.input(self._compare, inputs=[self.shown, baseline.picker], outputs=compared, **private)
        baseline.upload.upload(
            self._compare_file, inputs=[self.shown, baseline.upload, sources.label], outputs=compared, **private
        )

    def show(self, view: RunView, against: str, slug: str = "") -> Updates:
        """Every component of one report; ``slug`` names its gallery entry, if it is one."""
        compared = replace(view, against=self.kept.find(against))
        values = dict(zip(self.report.components, render_values(compared), strict=True))
        return {self.shown: slug or self.kept.keep(view), self.sources.picker: slug} | values

    def _pick(self, slug: str, against: str) -> Updates:
        view = self.kept.find(slug)
        return {self.shown: gr.skip()} if view is None else self.show(view, against, slug)

    def _open(self, path: str, label: str, against: str) -> Updates:
        try:
            return self.show(_open_view(path, label), against)
        except UnopenedFile as problem:
            return {self.report.notices: _render_unopened(path, problem)}

    def _relabel(self, shown: str, label: str, against: str) -> Updates:
        """The opened file read again by another label; a run that no one opened keeps its own."""
        view = self.kept.find(shown)
        if view is None or view.origin.kind != "opened":
            return {self.shown: gr.skip()}
        recording = replace(view.analysis.recording, label=label.strip() or Recording().label)
        return self.show(replace(view, analysis=analyze_recording(recording)), against)

    def _compare_file(self, shown: str, path: str, label: str) -> Updates:
        try:
            return self._compare(shown, self.kept.keep(_open_view(path, label)))
        except UnopenedFile as problem:
            return {self.report.comparison: _render_unopened(path, problem)}

    def _compare(self, shown: str, against: str) -> Updates:
        """The comparison's new value; the picker shows a choice only where the gallery has it."""
        view = self.kept.find(shown)
        if view is None:
            notice = render_message(
                "The run above is no longer kept",
                "The server keeps only the latest runs.",
                hint="Run or open it again.",
            )
            return {self.report.comparison: notice}
        (panel,) = compare_traces.PANEL.render(replace(view, against=self.kept.find(against)))
        return {
            self.against: against,
            self.report.baseline.picker: against if against in self.slugs else "",
            self.report.comparison: panel,
        }


def _open_view(path: str, label: str) -> RunView:
    """Raises: UnopenedFile."""
    return RunView(analysis=open_file(path, label), origin=Origin(kind="opened", title=Path(path).name))


def _render_unopened(path: str, problem: UnopenedFile) -> Markup:
    return render_message(f"{Path(path).name} was not opened", str(problem), hint=HINT)
