"""How the page looks and what ``launch`` is told: system fonts, our own style and script, nothing from another host."""

from pathlib import Path
from typing import Any

import gradio as gr

from ui.opened_file import MAX_FILE_BYTES

_STATIC = Path(__file__).parent / "static"


def launch_options() -> dict[str, Any]:
    """Keyword arguments for ``Blocks.launch``."""
    script = (_STATIC / "page.js").read_text(encoding="utf-8")
    theme = gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=("system-ui", "sans-serif"),
        font_mono=("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"),
        radius_size="sm",
        spacing_size="sm",
    ).set(
        # The default's subdued text has a contrast of 2.6:1; small print must be readable too (4.5:1).
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_title_text_color="*neutral_600",
        block_title_text_color_dark="*neutral_300",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_600",
    )
    return {
        "theme": theme,
        "css_paths": [_STATIC / "page.css"],
        "head": f"<script>{script}</script>",
        "footer_links": ["api", "settings"],
        "run_history": False,
        "ssr_mode": False,
        # Gradio's own refusals, such as of a path that was never uploaded, reach an API caller with their reason.
        "show_error": True,
        "max_file_size": MAX_FILE_BYTES,
    }
