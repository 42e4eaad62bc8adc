// The page's own interactions; everything is delegated, because Gradio replaces the panels' HTML at each run.
(() => {
  const parse = (text) => text.split(" ").filter(Boolean).map(Number);
  let selection = [];

  function sortTable(button) {
    const heading = button.closest("th"), table = button.closest("table"), body = table.tBodies[0];
    const column = Number(button.dataset.column), numeric = heading.classList.contains("number");
    // The first click on numbers shows the largest first.
    const current = heading.getAttribute("aria-sort");
    const order = current ? (current === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...body.rows].sort((a, b) => {
      const x = a.cells[column].dataset.sort, y = b.cells[column].dataset.sort;
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (numeric ? Number(x) - Number(y) : x.localeCompare(y));
    });
    body.append(...rows);
  }

  function markRows() {
    for (const row of document.querySelectorAll("tr[data-items]")) {
      const hit = selection.length > 0 && parse(row.dataset.items).some((item) => selection.includes(item));
      row.setAttribute("aria-selected", String(hit));
    }
  }

  function select(items, operators = []) {
    document.dispatchEvent(new CustomEvent("attnscope:select", { detail: { items, operators, from: "page" } }));
  }

  function openTab(slug) {
    const tab = document.getElementById(`tab-${slug}-button`);
    if (tab) tab.click();
  }

  async function copy(button) {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // No clipboard permission, as in a frame: the old way still works inside a click.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.appendChild(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1200);
  }

  document.addEventListener("attnscope:select", (event) => { selection = event.detail.items; window.attnscopeSelection = selection; markRows(); });

  // Gradio answers a second cancel of the same run with a server error: the first click of a run alone counts.
  let stopping = false;
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (target?.closest("#run")) stopping = false;
    if (!target?.closest("#stop")) return;
    if (stopping) event.stopImmediatePropagation();
    stopping = true;
    setTimeout(() => { stopping = false; }, 3000);  // a stop that was lost on its way can be said again
  }, true);

  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (!target) return;
    const sort = target.closest(".sort-button"), copyButton = target.closest(".copy-button");
    const show = target.closest("[data-show-items], [data-show-operators]"), open = target.closest("[data-open-tab]");
    const row = target.closest("tr[data-items]");
    if (target.closest("#run")) closeDrawer(); // it covers the run's progress
    if (sort) sortTable(sort);
    else if (copyButton) copy(copyButton);
    else if (show) {
      openTab("timeline");
      select(parse(show.dataset.showItems || ""), parse(show.dataset.showOperators || ""));
      // After the tab is drawn: the link stands in the findings, often a screen above it.
      setTimeout(() => document.querySelector("#tab-timeline .tl")?.scrollIntoView({ block: "nearest" }), 100);
    }
    else if (open) openTab(open.dataset.openTab);
    else if (row) select(row.getAttribute("aria-selected") === "true" ? [] : parse(row.dataset.items));
  });

  document.addEventListener("keydown", (event) => {
    const row = event.target instanceof Element ? event.target : null;
    if (!row || !row.matches("tr[data-items]")) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); row.click(); }
  });

  // A file that is dropped anywhere goes where the button would put it: the tab of the comparison has its own.
  const isBaseline = (target) => target instanceof Element && Boolean(target.closest("#tab-compare_traces"));
  const fileInput = (baseline) => {
    const input = document.getElementById(baseline ? "baseline-file" : "open-trace")?.previousElementSibling;
    return input instanceof HTMLInputElement ? input : null;
  };
  const hasFiles = (event) => Boolean(event.dataTransfer?.types.includes("Files")) && !event.target.closest?.("input");
  function markDrop(on, baseline) {
    document.body.classList.toggle("dropping", on);
    document.body.classList.toggle("dropping-baseline", on && baseline);
  }
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    markDrop(true, isBaseline(event.target));
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) markDrop(false, false); });
  document.addEventListener("drop", (event) => {
    markDrop(false, false);
    if (!hasFiles(event)) return;
    event.preventDefault();
    const input = fileInput(isBaseline(event.target)), files = event.dataTransfer.files;
    if (!input || !files.length) return;
    if (files.length > 1) { refuseFile(`${files.length} files were dropped; give one at a time.`); return; }
    input.files = files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });

  function refuseFile(words) {
    const refusal = document.getElementById("open-refusal");
    if (refusal) refusal.textContent = words;
  }
  // Before the upload and in a line that stays: the server would refuse it too, after minutes and in a passing note.
  document.addEventListener("change", (event) => {
    const input = event.target;
    if (!(input instanceof HTMLInputElement) || input.type !== "file" || !input.files?.length) return;
    const limits = document.querySelector("[data-max-bytes]"), file = input.files[0];
    const tooLarge = limits && file.size > Number(limits.dataset.maxBytes);
    const wrongKind = !/\.(json|gz)$/i.test(file.name);
    refuseFile("");
    if (!tooLarge && !wrongKind) return;
    event.stopImmediatePropagation();
    input.value = "";
    refuseFile(tooLarge
      ? `${file.name} has ${Math.ceil(file.size / 2 ** 20)} MB and ${limits.dataset.maxText} are allowed; give it as .json.gz, or record fewer steps.`
      : `${file.name} is not a .json or .gz file; give the trace as torch.profiler wrote it.`);
  }, true);

  // On a narrow screen the form is a drawer, and the report is what a visitor came for: it starts closed.
  const narrow = window.matchMedia("(max-width: 768px)");
  const closeDrawer = () => {
    const drawer = document.querySelector(".sidebar");
    if (drawer && narrow.matches && drawer.classList.contains("open")) drawer.querySelector(".toggle-button").click();
  };
  const closing = setInterval(() => {
    if (!document.querySelector(".sidebar")) return;
    clearInterval(closing);
    closeDrawer();
  }, 50);

  // Elapsed time runs here, so that it moves between two messages of the server.
  setInterval(() => {
    const running = document.querySelector(".running [data-run]");
    if (!running) return;
    if (running.dataset.run !== window.attnscopeRun) {
      window.attnscopeRun = running.dataset.run;
      window.attnscopeRunStart = performance.now() - Number(running.dataset.elapsedMs);
    }
    running.textContent = ((performance.now() - window.attnscopeRunStart) / 1000).toFixed(1) + "\u2009s";
  }, 100);
})();
