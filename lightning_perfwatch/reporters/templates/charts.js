// Draws the page's charts with Bokeh: colours from the style sheet, tips as plain text, and the timeline's zoom.
"use strict";

const charts = [];

function dataOf(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function colour(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

// A model says in its tags which of its properties has the colour of which variable.
function paint(chart) {
  for (const model of chart.document.all_models) {
    for (const tag of model.tags) {
      for (const [property, variable] of Object.entries(tag.colours ?? {})) {
        model[property] = Array.isArray(variable) ? variable.map(colour) : colour(variable);
      }
    }
  }
}

// Tips are built as text, so that a name is never read as markup. The style is that of the tip around it.
function tip(lines) {
  const box = document.createElement("div");
  const style = document.createElement("style");
  style.textContent = ":host { background: var(--card); color: var(--text); border: 1px solid var(--line);" +
    " border-radius: 6px; padding: 8px 10px; font: 13px/1.45 system-ui, sans-serif; opacity: 1; }";
  box.append(style);
  box.className = "tip";
  box.style.cssText = "max-width: min(26rem, 80vw); overflow-wrap: anywhere;";
  lines.forEach((line, number) => {
    const row = document.createElement("div");
    row.textContent = line;
    row.style.cssText = number === 0 ? "font-weight: 600" : "color: var(--quiet)";
    box.append(row);
  });
  return box;
}

function inWords(ms) {
  const [value, unit] = ms >= 1000 ? [ms / 1000, "s"] : ms >= 1 ? [ms, "ms"] : [ms * 1000, "µs"];
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value === 0 ? "0 s" : `${value.toFixed(digits)} ${unit}`;
}

// A chart of the page's JSON, which ``show`` brings to the screen: what is set before is not painted twice.
function load(name) {
  const { Document } = Bokeh.require("document");
  const chart = Document.from_json(dataOf(`${name}-data`)).roots()[0];
  charts.push(chart);
  return chart;
}

async function show(chart, place) {
  paint(chart);
  await Bokeh.embed.add_document_standalone(chart.document, place, [place]);
}

async function drawThroughput(place) {
  const chart = load("throughput");
  for (const hover of chart.toolbar.tools) {
    hover.tooltips = (source, { index }) => tip(source.data.tip[index].split("\n"));
  }
  await show(chart, place);
}

class Timeline {
  constructor(chart, texts, place) {
    this.time = chart.x_range;
    this.wholeMs = chart.x_range.end;
    this.texts = texts;
    this.place = place;
    const named = (name) => chart.document.get_model_by_name(name);
    this.events = named("events").data;
    this.eventLabels = named("event-labels");
    this.laneLabels = named("lane-labels");
    const layout = chart.tags.find((tag) => tag.tops !== undefined);
    this.tops = layout.tops;
    this.labelsFit = layout.row_px >= 14;
    this.chart = chart;
    named("events-tips").tooltips = (_, { index }) => tip(this.describe(index));
    this.time.change.connect(() => this.refreshSoon());
    this.refresh();
  }

  describe(index) {
    const { begin_ms, duration_ms, name, lane } = this.events;
    return [
      this.texts.names[name[index]],
      `begins at ${inWords(begin_ms[index])}, takes ${inWords(duration_ms[index])}`,
      this.texts.lanes[lane[index]],
    ];
  }

  resized() {
    if (this.place.clientWidth !== this.widthPx) {
      this.refreshSoon();
    }
  }

  // Names go into the bars that have room for them, and the lanes' names stay at the left edge.
  refresh() {
    const { start, end } = this.time;
    this.widthPx = this.place.clientWidth;
    const msPerPx = (end - start) / Math.max(1, this.widthPx);
    const { begin_ms, duration_ms, row, name } = this.events;
    const x = [], y = [], text = [];
    for (let i = 0; this.labelsFit && i < begin_ms.length; i++) {
      const from = Math.max(begin_ms[i], start);
      const room = (Math.min(begin_ms[i] + duration_ms[i], end) - from) / msPerPx;
      if (room >= 34) {
        const word = this.texts.names[name[i]];
        const most = Math.floor((room - 6) / 6.6);
        x.push(from);
        y.push(row[i] + 0.45);
        text.push(word.length <= most ? word : `${word.slice(0, most - 1)}…`);
      }
    }
    this.eventLabels.data = { x, y, text };
    const lanes = this.tops.map((top) => top + 0.55);
    this.laneLabels.data = { x: lanes.map(() => start), y: lanes, text: this.texts.lanes };
    document.getElementById("timeline-range").textContent = `${inWords(start)} to ${inWords(end)}`;
  }

  refreshSoon() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = undefined;
      this.refresh();
    });
  }

  show(start, end) {
    const length = Math.min(Math.max(end - start, this.time.min_interval), this.wholeMs);
    const from = Math.min(Math.max(start, 0), this.wholeMs - length);
    this.time.setv({ start: from, end: from + length });
  }

  zoom(factor) {
    const { start, end } = this.time;
    const middle = (start + end) / 2;
    const half = ((end - start) * factor) / 2;
    this.show(middle - half, middle + half);
  }

  pan(share) {
    const { start, end } = this.time;
    const by = (end - start) * share;
    this.show(start + by, end + by);
  }

  do(action) {
    const known = {
      in: () => this.zoom(0.5),
      out: () => this.zoom(2),
      left: () => this.pan(-0.25),
      right: () => this.pan(0.25),
      whole: () => this.show(0, this.wholeMs),
    };
    known[action]();
  }
}

const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole", Home: "whole" };

async function drawTimeline(place) {
  const chart = load("timeline");
  const timeline = new Timeline(chart, dataOf("timeline-texts"), place);
  if (matchMedia("(pointer: coarse)").matches) {
    // A finger scrolls the page; the buttons zoom.
    chart.toolbar.gestures.pan.active = chart.toolbar.gestures.scroll.active = null;
  }
  for (const button of document.querySelectorAll("[data-timeline]")) {
    button.addEventListener("click", () => timeline.do(button.dataset.timeline));
  }
  place.addEventListener("keydown", (event) => {
    if (KEYS[event.key] !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      timeline.do(KEYS[event.key]);
    }
  });
  await show(chart, place);
  new ResizeObserver(() => timeline.resized()).observe(place);
}

async function draw() {
  for (const [name, drawing] of [["throughput", drawThroughput], ["timeline", drawTimeline]]) {
    const place = document.getElementById(`${name}-chart`);
    if (place !== null) {
      await drawing(place);
    }
  }
  const repaint = () => charts.forEach(paint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  // Two frames later all of it is on the screen.
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("perfwatch-drawn")));
}

Bokeh.set_log_level("warn");
draw();
