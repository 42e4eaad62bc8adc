"""Pieces of the page that more than one panel uses: data in, escaped HTML or a Gradio component out."""
