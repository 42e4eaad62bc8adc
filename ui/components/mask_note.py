"""What the form says of a mask before it runs: its picture, its density, and both corners where they differ."""

from dataclasses import replace

from attention.masks import density, mask_of
from attention.masks.causal import ALIGNMENT
from attention.workload import MaskForm, Workload
from profiling.format import format_count, format_share
from ui.components.mask_picture import render_mask_picture, sample_mask
from ui.markup import Markup, element, text


def render_mask_note(workload: Workload) -> Markup:
    """The mask as it will run; where the corner matters, the other corner beside it."""
    mask = mask_of(workload)
    if ALIGNMENT in mask.parameters and workload.seq_len_q != workload.seq_len_kv:
        return render_corners(workload, chosen=str(workload.mask.parameters[ALIGNMENT.name]))
    return element(
        "div",
        render_mask_picture(sample_mask(workload), title=f"mask {mask.title}"),
        element("div", text(mask.title), element("br"), _describe_mask(workload)),
        class_="mask-row form-note att",
    )


def render_corners(workload: Workload, *, chosen: str | None) -> Markup:
    """The mask from either corner; ``chosen`` names the one that will run, None: none is chosen yet."""
    figures = []
    for corner in ALIGNMENT.choices:
        spec = replace(workload.mask, parameters={**workload.mask.parameters, ALIGNMENT.name: corner})
        cornered = replace(workload, mask=replace(spec, form=MaskForm.AUTO))  # the form may fit one corner alone
        mark = "✓ " if corner == chosen else ""
        picture = render_mask_picture(sample_mask(cornered), title=f"mask {workload.mask.name}, {corner}")
        caption = element("figcaption", f"{mark}{corner}", element("br"), _describe_mask(cornered))
        figures.append(element("figure", picture, caption, class_="mask-corner"))
    return element(
        "div",
        element("div", text(mask_of(workload).title)),
        element("div", *figures, class_="mask-row"),
        class_="form-note att",
    )


def _describe_mask(workload: Workload) -> Markup:
    """Density and dead rows, by formula, and what the picture shows."""
    mask = mask_of(workload)
    rows = workload.batch_size * workload.seq_len_q
    dead = mask.count_dead_rows(workload)
    notes = [
        f"{format_share(density(workload))} of the pairs allowed",
        f"{format_count(dead)} of {format_count(rows)} query rows may attend to nothing"
        f" (over {workload.batch_size} batch entries)"
        if dead
        else "every query row has a key to attend to",
        f"rows: queries, columns: keys; {workload.seq_len_q} × {workload.seq_len_kv}",
    ]
    if mask.varies_by_batch:
        notes.append("batch entry 0 is drawn")
    if mask.varies_by_head:
        notes.append("the bias of each head is not drawn")
    return element("span", "; ".join(notes), class_="quiet")
