// Draws props.value (JSON of what lanes.py builds) as SVG. Names come from traces: they reach the page through textContent alone.
const SVG = "http://www.w3.org/2000/svg";
const ROW = 18, LANE_GAP = 10, AXIS = 22, MIN_TEXT = 28, ZOOM = 1.4;
const DARK_TEXT_ROLES = new Set(["gemm", "elementwise", "scale", "cast", "memset", "mask", "softmax", "memcpy", "other",
  "convolution", "normalization", "random"]);
const at = (selector) => element.querySelector(selector);
const chart = at(".tl-chart"), record = at(".tl-record"), picker = at(".tl-step"), measure = at(".tl-measure");

let data = null;            // the parsed value; lanes get their drawn place
let step = null;            // the drawn step
let view = { from: 0, to: 1 }; // ns from the step's start
let hovered = null;
let selected = new Set();   // device item indices
let focusOne = null;        // the slice that was clicked or walked to
let ruler = { on: false, marks: [] };
let drag = null;
let nodes = new Map();      // slice -> its rectangle in the present drawing
let links = null;           // the group that holds the launch → kernel curves

const make = (name, attributes, parent) => {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(node);
  return node;
};
const gutter = () => (chart.clientWidth < 500 ? 0 : 118);
const plotWidth = () => Math.max(50, chart.clientWidth - gutter() - 2);
const toX = (ns) => gutter() + ((ns - view.from) / (view.to - view.from)) * plotWidth();
const toNs = (x) => view.from + ((x - gutter()) / plotWidth()) * (view.to - view.from);
const slices = () => (step ? step.lanes.flatMap((lane) => lane.slices) : []);
const formatNs = (ns) => {
  const size = Math.abs(ns);
  const [unit, name] = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  const value = ns / unit;
  return (unit === 1 ? value.toFixed(0) : value.toPrecision(3)) + "\u2009" + name;
};
const axisText = (ns, tick) => {
  const [unit, name] = step.duration_ns >= 1e7 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = Math.max(0, Math.min(3, Math.ceil(-Math.log10(tick / unit))));
  return (ns / unit).toFixed(digits) + "\u2009" + name;
};

function load() {
  data = props.value ? JSON.parse(props.value) : null;
  picker.replaceChildren();
  hovered = focusOne = null;
  selected = new Set();
  ruler.marks = [];
  record.style.minHeight = "";
  const steps = data && data.steps ? data.steps : [];
  at(".tl-empty").hidden = steps.length > 0;
  for (const part of [".tl-bar", ".tl-hint", ".tl-record"]) at(part).hidden = steps.length === 0;
  chart.hidden = steps.length === 0;
  steps.forEach((entry, index) => {
    const option = document.createElement("option");
    option.value = index;
    option.textContent = entry.title;
    picker.appendChild(option);
  });
  choose(0);
}

function choose(index) {
  step = data && data.steps ? data.steps[index] : null;
  if (!step) { chart.replaceChildren(); at(".tl-notes").textContent = ""; return; }
  picker.value = String(index);
  focusOne = hovered = null;
  ruler.marks = [];
  at(".tl-notes").textContent = data.notes.concat(step.notes).join(". ");
  fit();
}

function fit() {
  const margin = step.duration_ns * 0.01 || 1;
  view = { from: -margin, to: step.duration_ns + margin };
  draw();
}

function zoom(factor, atNs) {
  const low = -step.duration_ns * 0.05, high = step.duration_ns * 1.05;
  const width = Math.min(high - low, Math.max(200, (view.to - view.from) * factor));
  const share = (atNs - view.from) / (view.to - view.from);
  move(atNs - share * width, width);
}

function move(from, width) {
  const low = -step.duration_ns * 0.05, high = step.duration_ns * 1.05;
  from = Math.min(Math.max(from, low), Math.max(low, high - width));
  view = { from, to: from + width };
  draw();
}

function draw() {
  if (!step || !chart.clientWidth) return;
  const narrow = gutter() === 0;
  const top = (lane) => lane.y + (narrow ? 14 : 0);
  let y = AXIS;
  for (const lane of step.lanes) {
    lane.y = y;
    y += lane.rows * ROW + LANE_GAP + (narrow ? 14 : 0);
  }
  const width = chart.clientWidth, height = y + 4;
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const hatch = make("pattern", { id: "tl-hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, make("defs", {}, svg));
  make("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "tl-hatch-line" }, hatch);
  const clip = make("clipPath", { id: "tl-clip" }, svg);
  make("rect", { x: gutter(), y: 0, width: plotWidth(), height }, clip);
  drawAxis(svg, height);
  nodes = new Map();
  const plot = make("g", { "clip-path": "url(#tl-clip)" }, svg);
  for (const lane of step.lanes) drawLane(svg, plot, lane, top(lane));
  drawMarks(plot, height);
  links = make("g", {}, plot);
  chart.replaceChildren(svg);
  highlight();
}

// What hovering and selecting change: cheap, so that the pointer never waits for a whole drawing.
function highlight() {
  if (!step || !links) return;
  for (const [slice, node] of nodes) {
    const hot = isHot(slice);
    node.classList.toggle("hot", hot);
    node.classList.toggle("cold", selected.size > 0 && slice.kind === "device" && !hot);
  }
  links.replaceChildren();
  drawLinks(links);
  showRecord();
}

const isHot = (slice) => slice === hovered || slice === focusOne || (slice.item !== null && selected.has(slice.item));

function drawAxis(svg, height) {
  const span = view.to - view.from, rough = span / Math.max(2, plotWidth() / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const tick = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  for (let ns = Math.ceil(view.from / tick) * tick; ns <= view.to; ns += tick) {
    const x = toX(ns);
    make("line", { x1: x, x2: x, y1: AXIS - 4, y2: height, class: "tl-grid" }, svg);
    const last = x + 64 > chart.clientWidth; // its text would be cut: it goes to the left of its line
    const place = last ? { x: x - 3, "text-anchor": "end" } : { x: x + 3 };
    const label = make("text", { ...place, y: 13, class: "tl-axis" }, svg);
    label.textContent = axisText(ns === 0 ? 0 : ns, tick);
  }
}

function drawLane(svg, plot, lane, y) {
  make("rect", { x: 0, y: y - 2, width: chart.clientWidth, height: lane.rows * ROW + 4, class: "tl-band", opacity: 0.5 }, plot);
  const title = make("text", { x: 6, y: gutter() ? y + 12 : y - 4, class: "tl-lane-title" }, svg);
  title.textContent = lane.title;
  if (lane.kind === "device") {
    for (const gap of step.gaps) drawGap(plot, gap, y, lane.rows * ROW);
  }
  const ends = []; // right edge of the last rectangle in each row
  for (const slice of lane.slices) {
    const from = toX(slice.start_ns), to = toX(slice.start_ns + slice.duration_ns);
    // Slices that fall into one pixel would hide each other; the first stands for them until one zooms in.
    if (to < (ends[slice.row] ?? -1) + 0.5 && !isHot(slice)) continue;
    drawSlice(plot, slice, y + slice.row * ROW, from, to);
    ends[slice.row] = Math.max(to, from + 1);
  }
}

function drawGap(plot, gap, y, height) {
  const x = toX(gap.start_ns), width = toX(gap.start_ns + gap.duration_ns) - x;
  if (x + width < gutter() || x > chart.clientWidth || width < 1) return;
  const node = make("rect", { x, y, width, height, fill: "url(#tl-hatch)", opacity: 0.55, class: "tl-gap" }, plot);
  make("title", {}, node).textContent = gap.text;
}

function drawSlice(plot, slice, y, from, to) {
  if (to < gutter() || from > chart.clientWidth) return;
  const x = Math.max(from, gutter() - 5), width = Math.max(1.5, Math.min(to, chart.clientWidth + 5) - x);
  const node = make("rect", { x, y, width, height: ROW - 2, rx: 2, class: `tl-slice ${slice.kind}` }, plot);
  nodes.set(slice, node);
  if (slice.kind === "device") node.style.fill = `var(--role-${slice.role})`;
  if (slice.item !== null) node.dataset.item = slice.item;
  node.slice = slice;
  if (width < MIN_TEXT) return;
  const dark = slice.kind === "device" ? DARK_TEXT_ROLES.has(slice.role) : true;
  const text = make("text", { x: Math.max(x, gutter()) + 4, y: y + 12, class: dark ? "tl-text-dark" : "tl-text-light" }, plot);
  const room = Math.floor((x + width - Math.max(x, gutter()) - 8) / 6.7);
  text.textContent = slice.title.length > room ? slice.title.slice(0, Math.max(0, room - 1)) + "…" : slice.title;
}

function drawMarks(plot, height) {
  at(".tl-label-hint").hidden = !step.label;
  if (step.label) {
    for (const ns of [step.label.start_ns, step.label.start_ns + step.label.duration_ns]) {
      make("line", { x1: toX(ns), x2: toX(ns), y1: AXIS - 4, y2: height, class: "tl-label-line" }, plot);
    }
  }
  const xs = ruler.marks.map(toX);
  if (xs.length === 2) {
    make("rect", { x: Math.min(...xs), y: AXIS - 4, width: Math.abs(xs[1] - xs[0]), height, class: "tl-ruler-band" }, plot);
  }
  for (const x of xs) make("line", { x1: x, x2: x, y1: 0, y2: height, class: "tl-ruler-line" }, plot);
  measure.textContent = !ruler.on ? "" : xs.length === 2
    ? formatNs(Math.abs(ruler.marks[1] - ruler.marks[0])) + " between the two marks"
    : xs.length === 1 ? "click the second point" : "click the first point";
}

function drawLinks(plot) {
  const wanted = hovered || focusOne;
  const all = slices();
  const byItem = new Map(all.filter((slice) => slice.item !== null).map((slice) => [slice.item, slice]));
  for (const launch of all) {
    for (const item of launch.links) {
      const target = byItem.get(item);
      if (!target || !(wanted === launch || wanted === target || selected.has(item))) continue;
      const y1 = launchY(launch) + ROW - 2, y2 = launchY(target);
      const x1 = toX(launch.start_ns), x2 = toX(target.start_ns), bend = Math.max(12, (y2 - y1) / 2);
      make("path", { d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`, class: "tl-link" }, plot);
    }
  }
}

function launchY(slice) {
  const lane = step.lanes.find((entry) => entry.slices.includes(slice));
  return lane.y + (gutter() ? 0 : 14) + slice.row * ROW;
}

function showRecord() {
  const slice = hovered || focusOne || slices().find((entry) => entry.item !== null && selected.has(entry.item));
  record.replaceChildren();
  if (!slice) {
    record.textContent = "Hover or select an event to see its whole record and what launched it.";
    return;
  }
  const heading = document.createElement("h4");
  heading.textContent = slice.name;
  const list = document.createElement("dl");
  for (const [label, value] of slice.record) {
    const row = document.createElement("div"), term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = label;
    text.textContent = value;
    if (value.length > 40) row.className = "wide";
    row.append(term, text);
    list.appendChild(row);
  }
  record.append(heading, list);
  // It only grows: a page that shrinks under the pointer would scroll it off the event that made it grow.
  record.style.minHeight = Math.max(record.offsetHeight, parseFloat(record.style.minHeight) || 0) + "px";
}

function announce() {
  document.dispatchEvent(new CustomEvent("attnscope:select", { detail: { items: [...selected], from: "timeline" } }));
}

function pick(slice) {
  focusOne = slice;
  const items = !slice ? [] : slice.item !== null ? [slice.item] : slice.links;
  selected = new Set(items);
  draw();
  announce();
}

function walk(direction) {
  const order = slices().slice().sort((a, b) => a.start_ns - b.start_ns || a.row - b.row);
  if (!order.length) return;
  const next = order[(order.indexOf(focusOne) + direction + order.length) % order.length];
  const middle = next.start_ns + next.duration_ns / 2;
  if (middle < view.from || middle > view.to) move(middle - (view.to - view.from) / 2, view.to - view.from);
  pick(next);
}

function setRuler(on) {
  ruler = { on, marks: [] };
  at(".tl-ruler").setAttribute("aria-pressed", String(on));
  chart.classList.toggle("measuring", on);
  draw();
}

const localX = (event) => event.clientX - chart.getBoundingClientRect().left;

chart.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, from: view.from, width: view.to - view.from, moved: false, slice: event.target.slice || null };
});
window.addEventListener("pointermove", (event) => {
  if (!drag || !step) return;
  if (Math.abs(event.clientX - drag.x) > 4) drag.moved = true;
  if (!drag.moved) return;
  chart.classList.add("dragging");
  move(drag.from - ((event.clientX - drag.x) / plotWidth()) * drag.width, drag.width);
});
window.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const { moved, slice } = drag;
  drag = null;
  chart.classList.remove("dragging");
  if (moved || !step) return;
  if (ruler.on) {
    const mark = toNs(localX(event));
    ruler.marks = ruler.marks.length === 2 ? [mark] : [...ruler.marks, mark];
    draw();
  } else pick(slice);
});
window.addEventListener("pointercancel", () => { drag = null; chart.classList.remove("dragging"); });
chart.addEventListener("pointerover", (event) => {
  const slice = event.target.slice || null;
  if (slice !== hovered && !drag) { hovered = slice; highlight(); }
});
chart.addEventListener("pointerleave", () => { if (hovered) { hovered = null; highlight(); } });
chart.addEventListener("wheel", (event) => {
  // Without focus the wheel belongs to the page, so that scrolling past the chart never gets stuck in it.
  if (document.activeElement !== chart && !event.ctrlKey) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1 / ZOOM : ZOOM, toNs(localX(event)));
}, { passive: false });
chart.addEventListener("keydown", (event) => {
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  const width = view.to - view.from, centre = (view.from + view.to) / 2;
  const actions = {
    ArrowLeft: () => move(view.from - width * 0.15, width), ArrowRight: () => move(view.from + width * 0.15, width),
    "+": () => zoom(1 / ZOOM, centre), "=": () => zoom(1 / ZOOM, centre), "-": () => zoom(ZOOM, centre),
    0: fit, Home: fit, n: () => walk(1), p: () => walk(-1), r: () => setRuler(!ruler.on),
    Escape: () => { setRuler(false); pick(null); },
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
at(".tl-in").addEventListener("click", () => zoom(1 / ZOOM, (view.from + view.to) / 2));
at(".tl-out").addEventListener("click", () => zoom(ZOOM, (view.from + view.to) / 2));
at(".tl-fit").addEventListener("click", fit);
at(".tl-ruler").addEventListener("click", () => setRuler(!ruler.on));
picker.addEventListener("change", () => choose(Number(picker.value)));
document.addEventListener("attnscope:select", (event) => {
  if (event.detail.from === "timeline" || !step) return;
  selected = new Set(event.detail.items);
  focusOne = null;
  const operators = new Set(event.detail.operators || []);
  const wanted = (slice) => (slice.item !== null && selected.has(slice.item)) || (slice.kind === "operator" && operators.has(slice.index));
  if ((selected.size || operators.size) && !slices().some(wanted)) {
    const other = data.steps.findIndex((entry) => entry.lanes.some((lane) => lane.slices.some(wanted)));
    if (other >= 0) choose(other);
  }
  if (!selected.size) focusOne = slices().find(wanted) || null; // work on the host alone: its first operator
  draw(); // and not highlight alone: a selected slice is drawn even where it is thinner than a pixel
});
let drawnWidth = 0;
new ResizeObserver(() => {
  // Only a new width needs a new drawing; drawing itself changes the height.
  if (chart.clientWidth === drawnWidth) return;
  drawnWidth = chart.clientWidth;
  draw();
}).observe(chart);
watch("value", () => {
  load();
  announce(); // another report: what was selected in the old one means nothing here
});
load();
// A row may have been selected before this tab was opened for the first time.
selected = new Set(window.attnscopeSelection || []);
draw();
