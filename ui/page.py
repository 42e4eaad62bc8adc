"""The page: form on the left, one report on the right, and the events between them."""

import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from attention.validation import default_fields, parse_workload
from attention.workload import InvalidWorkload
from profiling.recording import Progress, Recorder, RunRequest
from profiling.worker import HEARTBEAT_S
from profiling.zero_gpu import on_zero_gpu
from ui.api import add_endpoints
from ui.components.notice import render_message
from ui.components.origin import render_top_bar
from ui.components.progress import render_progress
from ui.gallery import GalleryEntry, read_gallery
from ui.guess import parse_guess
from ui.live_run import collect_recording, run_live
from ui.machine_facts import KnownMachine
from ui.markup import Markup, element
from ui.panels import downloads
from ui.presets import PRESETS
from ui.report_events import ReportEvents
from ui.report_view import ReportView, create_report_view
from ui.sidebar import Sidebar, create_sidebar, render_note_values
from ui.sources import create_sources
from ui.workload_form import control_updates, control_values, read_controls, render_problem

_log = logging.getLogger(__name__)
# Off ZeroGPU all device work is one group with room for one, so that runs never disturb each other's timing.
DEVICE = "device"
# A page that stays open this long loses its downloads; a reload brings them back.
CACHE_S = 24 * 3600
# Through the queue: Gradio (6.31) tells a state's change only of events that went through it. Behind no run, though.
NOTE_AGAIN: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "concurrency_limit": None}


def build_app(record: Recorder, *, recordings_folder: Path) -> gr.Blocks:
    """The page. ``record`` owns the device; ``recordings_folder`` holds the runs that are shown before one is made."""
    page = _Page(record, read_gallery(recordings_folder))
    return page.blocks


class _Page:
    """Holds the components while the events between them are declared."""

    def __init__(self, record: Recorder, gallery: tuple[GalleryEntry, ...]) -> None:
        self.record = record
        self.gallery = gallery
        self.machine = KnownMachine()
        self.asking = threading.Lock()
        self.first = gallery[0].view() if gallery else None
        with gr.Blocks(title="AttnScope", analytics_enabled=False, delete_cache=(3600, CACHE_S)) as self.blocks:
            self.top_bar = gr.HTML(self._top_bar(), elem_id="top-bar", apply_default_css=False)
            self.form: Sidebar = create_sidebar(default_fields("cuda"))
            self.progress = gr.HTML("", elem_id="progress", apply_default_css=False)
            self.sources = create_sources(gallery)
            self.report: ReportView = create_report_view(self.first, gallery)
            self.events = ReportEvents(gallery, self.sources, self.report)
            self.note_again = gr.State(0)  # its change asks for the form's notes again
            self._connect_form()
            self._connect_run()
            self.events.connect()
            self._connect_load()
            add_endpoints(record, self.machine, concurrency_limit=self._limit)

    @property
    def _limit(self) -> int | None:
        """ZeroGPU gives each visitor a GPU of their own; elsewhere there is one device."""
        return None if on_zero_gpu() else 1

    def _top_bar(self) -> Markup:
        return render_top_bar(self.machine.environment, space_id=os.environ.get("SPACE_ID"))

    def _connect_form(self) -> None:
        form, controls = self.form, self.form.controls
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}
        # One event for all that changes a note, so that an older answer never follows a newer one.
        gr.on(
            [control.change for control in (self.note_again, form.measure_unlocks, *form.controls)],
            self._note_values,
            inputs=[form.measure_unlocks, *form.controls],
            outputs=self.form.notes,
            trigger_mode="always_last",
            **private,
        )
        # Another operation, the first field, starts from its own default case: on a CPU from a small one.
        controls[0].input(
            lambda name: control_updates(default_fields(self.machine.device, name)), controls[0], controls, **private
        )
        presets = {preset.slug: preset for preset in PRESETS}
        self.form.preset.input(
            lambda slug: [presets[slug].summary_line(), *control_updates(presets[slug].fields())],
            inputs=self.form.preset,
            outputs=[self.form.preset_summary, *controls],
            **private,
        )

    def _note_values(self, measure_unlocks: bool, *values: object) -> list[Any]:
        return render_note_values(values, self.machine.environment, measure_unlocks=measure_unlocks)

    def _connect_run(self) -> None:
        form = self.form
        outputs = [self.progress, self.top_bar, form.error, form.run, form.stop, self.events.shown, self.sources.picker]
        outputs += self.report.components
        waiting = form.run.click(
            _show_waiting,
            inputs=self.events.shown,
            outputs=[self.progress, form.run, form.stop],
            api_visibility="private",
            show_progress="hidden",
            queue=False,
        )
        live = waiting.then(
            self._run,
            inputs=[self.events.shown, self.events.against, form.guess, form.measure_unlocks, *form.controls],
            outputs=outputs,
            api_visibility="private",
            show_progress="hidden",
            concurrency_id=DEVICE,
            concurrency_limit=self._limit,
        )
        live.then(_count_up, self.note_again, self.note_again, **NOTE_AGAIN)
        # In two steps, because stages that the run had sent before it was cancelled may still be on their way: the
        # second goes through the queue and so arrives behind them. Until then a new run cannot start.
        form.stop.click(
            lambda: [gr.update(interactive=False), gr.update(interactive=False)],
            outputs=[form.run, form.stop],
            cancels=[live],
            api_visibility="private",
            show_progress="hidden",
            queue=False,
        ).then(
            _show_stopped,
            outputs=[self.progress, self.report.notices, form.run, form.stop],
            api_visibility="private",
            show_progress="hidden",
            concurrency_limit=None,
        )

    def _run(
        self, shown: str, against: str, guess: str | None, measure_unlocks: bool, *values: object
    ) -> Iterator[dict[Any, Any]]:
        """Stages while the run goes, then every component of the new report."""
        form = self.form
        idle = {self.progress: "", form.run: gr.update(interactive=True), form.stop: gr.update(interactive=False)}
        try:
            workload = parse_workload(read_controls(values))
            expected = parse_guess(guess)
        except InvalidWorkload as problem:
            # Beside the form, and in the report's place, because a narrow screen's form is a closed drawer.
            notice = render_message("The run did not start", str(problem), calm=True)
            yield idle | {form.error: render_problem(problem), self.report.notices: notice}
            return
        try:
            options: dict[str, Any] = {"guess": expected, "shows_old": bool(shown), "measure_unlocks": measure_unlocks}
            for update in run_live(self.record, workload, self.machine, **options):
                if update.view is None:
                    yield {self.progress: update.progress}
                else:
                    yield idle | {self.top_bar: self._top_bar()} | self.events.show(update.view, against)
        except Exception:  # noqa: BLE001 - the recorder's own fault must not leave the page waiting for ever
            _log.exception("the recorder broke off")
            notice = render_message(
                "The run broke off",
                "This is a fault of the app and not of the workload; the server's log has the details.",
                hint="Press Run live to try again; if it stays, report it with the workload.",
            )
            yield idle | {self.report.notices: notice}

    def _connect_load(self) -> None:
        """Ask the machine who it is, and begin with a case that fits it."""
        if self.first is not None:
            # Gradio removes served files after CACHE_S, and these were made when the server started.
            first = self.first
            self.blocks.load(
                lambda: list(downloads.PANEL.render(first)),
                outputs=list(self.report.downloads),
                api_visibility="private",
                show_progress="hidden",
                queue=False,
            )
        if on_zero_gpu():
            return  # it would cost every visitor a part of their GPU time
        form = self.form
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        known = self.blocks.load(self._ask_machine, outputs=self.top_bar, concurrency_limit=None, **private)
        known.then(
            self._fit_form,
            inputs=[form.preset, *form.controls],
            outputs=[form.preset, form.preset_summary, *form.controls],
            queue=False,
            **private,
        ).then(_count_up, self.note_again, self.note_again, **NOTE_AGAIN)

    def _ask_machine(self) -> Markup:
        # The lock and not the device's group: once the machine is known, a new visitor must not wait behind a run.
        with self.asking:
            if self.machine.environment is None:
                request = RunRequest(workloads=(), depth="environment")
                collect_recording(self.record, request, self.machine)
        return self._top_bar()

    def _fit_form(self, preset: str, *values: object) -> list[Any]:
        """On a CPU the form starts from the small case, unless the visitor has already changed something."""
        untouched = list(values) == control_values(default_fields("cuda"))
        environment = self.machine.environment
        if not untouched or environment is None or environment.device != "cpu":
            return [gr.skip()] * (2 + len(values))
        small = next(entry for entry in PRESETS if entry.slug == "small")
        note = element(
            "span",
            "This machine has no GPU, so the form starts from a case that ends in seconds on a CPU.",
            class_="form-note att",
        )
        return [small.slug, note, *control_updates(small.fields())]


def _count_up(count: int) -> int:
    return count + 1


def _show_waiting(shown: str) -> list[Any]:
    waiting = Progress(stage="queue", workload_index=0, workload_count=1, done=0, total=1)
    shown = render_progress(waiting, run="waiting", elapsed_ms=0, shows_old=bool(shown))
    return [shown, gr.update(interactive=False), gr.update(interactive=True)]


def _show_stopped() -> list[Any]:
    time.sleep(HEARTBEAT_S)  # by then a cancelled run has sent its last
    notice = render_message(
        "Stopped", "The run was ended and nothing of it was kept. What stands below is older.", calm=True
    )
    return ["", notice, gr.update(interactive=True), gr.update(interactive=False)]
