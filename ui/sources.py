"""Where a report may come from besides a live run: a recorded one of the gallery, or a file of the visitor's own."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from profiling.commands.analyze import LABEL_HELP
from ui.gallery import GalleryEntry
from ui.markup import Markup, element
from ui.opened_file import MAX_FILE_BYTES, MAX_FILE_TEXT

FILE_TYPES = [".json", ".gz"]
_CHOOSE = "choose a recorded run"
_COMPARE = "compare with a recorded run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    picker: gr.Dropdown
    upload: gr.UploadButton
    label: gr.Textbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What the run on the page is compared with."""

    picker: gr.Dropdown
    upload: gr.UploadButton


def create_sources(gallery: Sequence[GalleryEntry]) -> Sources:
    """The row above the report, with the gallery's first entry chosen."""
    with gr.Row(elem_id="sources"):
        picker = _create_picker(gallery, _CHOOSE, elem_id="gallery", value=gallery[0].slug if gallery else None)
        upload = gr.UploadButton(
            "Open a trace or recording", file_types=FILE_TYPES, size="sm", scale=1, min_width=190, elem_id="open-trace"
        )
        label = gr.Textbox(
            show_label=False,
            container=False,
            placeholder="call label: attn_fwd",
            max_lines=1,
            scale=1,
            min_width=190,
            elem_id="open-label",
            label=LABEL_HELP,
        )
    gr.HTML(_render_hint(), elem_id="open-hint", apply_default_css=False)
    return Sources(picker=picker, upload=upload, label=label)


def create_baseline(gallery: Sequence[GalleryEntry]) -> Baseline:
    """The row inside the tab of the comparison, with nothing chosen."""
    with gr.Row(elem_id="baseline"):
        picker = _create_picker(gallery, _COMPARE, elem_id="baseline-picker", value="")
        upload = gr.UploadButton(
            "Compare with a file",
            file_types=FILE_TYPES,
            size="sm",
            scale=1,
            min_width=190,
            elem_id="baseline-file",
        )
    return Baseline(picker=picker, upload=upload)


def _create_picker(gallery: Sequence[GalleryEntry], prompt: str, *, elem_id: str, value: str | None) -> gr.Dropdown:
    return gr.Dropdown(
        [(prompt, ""), *((entry.title, entry.slug) for entry in gallery)],
        value=value,
        label=prompt,
        show_label=False,
        container=False,
        visible=bool(gallery),
        elem_id=elem_id,
        scale=3,
    )


def _render_hint() -> Markup:
    # The script reads the limit here and writes what it refuses into the span behind it.
    return element(
        "p",
        "Or drop a file on this page: .json or .json.gz of torch.profiler, or a recording.json.gz, up to "
        f"{MAX_FILE_TEXT}. It is read here, without a GPU. ",
        element("strong", class_="bad", id="open-refusal", role="status"),
        class_="att quiet",
        data_max_bytes=MAX_FILE_BYTES,
        data_max_text=MAX_FILE_TEXT,
    )
