"""The page: the only package that imports gradio, and it never imports torch."""

from ui.page import build_app
from ui.theme import launch_options

__all__ = ["build_app", "launch_options"]
