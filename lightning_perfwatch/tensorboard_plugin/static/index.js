// The PerfWatch tab: pickers, a table of all runs, and one or two reports beside each other.
// Every name comes from somebody's log directory, so text is set as text and nothing else.

const POLL_MS = 3000;
const NOTHING =
  "There is no PerfWatch report below this log directory yet. Add PerfWatch() to the callbacks of a Trainer: " +
  "the report shows up here once its first profiled window is analysed.";

let runs = [];
let sortedBy = {column: null, isDescending: false};

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// Options are changed only where they differ: an open list stays open while nothing is new.
function setOptions(select, options, chosen) {
  const same =
    select.options.length === options.length &&
    options.every(([value, label], at) => select.options[at].value === value && select.options[at].text === label);
  if (!same) {
    select.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
  }
  if (select.value !== chosen) select.value = chosen;
}

// One report: what is chosen, and the frame that shows it.
class Pane {
  constructor(name) {
    this.run = null; // its name, null until one is chosen
    this.window = "";
    this.isChosen = false;
    this.shown = null; // what the frame shows, and when that was written
    this.scroll = 0;
    this.frame = null;
    this.runPicker = element("select", {onchange: () => this.choose(this.runPicker.value)});
    this.windowPicker = element("select", {onchange: () => this.choose(this.run, this.windowPicker.value)});
    this.windowLabel = element("label", {}, "Window ", this.windowPicker);
    this.page = element("div", {class: "page"});
    this.place = element(
      "section",
      {class: "pane", "aria-label": `${name} report`},
      element("div", {class: "pickers"}, element("label", {}, "Run ", this.runPicker), this.windowLabel),
      this.page,
    );
    window.addEventListener("message", (event) => {
      const scroll = event.data?.perfwatchScroll;
      if (this.frame && event.source === this.frame.contentWindow && Number.isFinite(scroll)) this.scroll = scroll;
    });
  }

  choose(run, chosenWindow = "") {
    this.run = run;
    this.window = chosenWindow;
    this.isChosen = true;
    this.scroll = 0;
    update();
  }

  update() {
    const run = runs.find((one) => one.name === this.run);
    if (this.place.hidden || !run) {
      this.show(null);
      return;
    }
    setOptions(this.runPicker, runs.map((one) => [one.name, one.title]), run.name);
    if (!run.windows.some((one) => one.name === this.window)) this.window = "";
    setOptions(this.windowPicker, run.windows.map((one) => [one.name, one.label]), this.window);
    this.windowLabel.hidden = run.windows.length < 2;
    const chosen = run.windows.find((one) => one.name === this.window);
    this.show({run: run.name, window: chosen.name, stamp: chosen.stamp ?? ""}, run.title);
  }

  // The page of a report, anew only where another was chosen or it was written again. The old one stays in sight
  // until the new one is there, and a newer report of the same run begins where the older one was scrolled to.
  show(wanted, title) {
    const key = wanted && JSON.stringify(wanted);
    if (key === this.shown) return;
    this.shown = key;
    const old = this.frame;
    this.frame = null;
    if (!wanted) {
      this.page.replaceChildren();
      return;
    }
    const frame = element("iframe", {sandbox: "allow-scripts", title: `PerfWatch report of ${title}`});
    const place = this.scroll > 0 ? `#perfwatch-scroll=${this.scroll}` : "";
    frame.src = `page?${new URLSearchParams(wanted)}${place}`;
    frame.addEventListener("load", () => {
      for (const other of [...this.page.children]) {
        if (other !== frame && this.frame === frame) other.remove();
      }
    });
    this.frame = frame;
    if (old) this.page.insertBefore(frame, old);
    else this.page.replaceChildren(frame);
  }
}

const first = new Pane("First");
const second = new Pane("Second");
const status = element("p", {role: "status"});
const compare = element("input", {type: "checkbox", onchange: () => update()});
const count = element("summary");
const table = element("table");
const list = element("details", {class: "runs"}, count, element("div", {class: "scroll", tabindex: "0"}, table));
const nothing = element("p", {class: "nothing"}, NOTHING);
const compareLabel = element("label", {}, compare, " Beside a second run");

function update() {
  const newest = [...runs].sort((one, other) => (other.written_s ?? 0) - (one.written_s ?? 0));
  const names = new Set(runs.map((run) => run.name));
  if (!names.has(first.run)) first.run = newest[0]?.name ?? null;
  if (!names.has(second.run) || (!second.isChosen && second.run === first.run)) {
    second.run = (newest.find((run) => run.name !== first.run) ?? newest[0])?.name ?? null;
  }
  second.place.hidden = !compare.checked;
  nothing.hidden = runs.length > 0;
  first.place.hidden = runs.length === 0;
  list.hidden = compareLabel.hidden = runs.length === 0;
  setText(count, runs.length === 1 ? "One run" : `All ${runs.length} runs`);
  first.update();
  second.update();
  drawTable();
}

let drawn = null;

function drawTable() {
  const shown = [first.run, compare.checked ? second.run : null];
  const key = JSON.stringify([runs, sortedBy, shown]);
  if (key === drawn) return;
  drawn = key;
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const columns = Object.keys(runs.find((run) => !run.problem)?.figures ?? {});
  const value = (run, column) => (column === "run" ? run.title : run.figures[column]?.[1]) ?? null;
  const rows = [...runs];
  if (sortedBy.column) rows.sort((one, other) => byValue(value(one, sortedBy.column), value(other, sortedBy.column)));
  const isNumber = (column) => runs.some((run) => typeof value(run, column) === "number");
  const head = ["run", ...columns].map((column) => {
    const direction = sortedBy.isDescending ? "descending" : "ascending";
    const attributes = {scope: "col", "aria-sort": column === sortedBy.column ? direction : "none"};
    if (isNumber(column)) attributes.class = "number";
    const mark = column !== sortedBy.column ? "" : sortedBy.isDescending ? " ▾" : " ▴";
    const sort = {type: "button", "data-key": `sort ${column}`, onclick: () => sortBy(column, isNumber(column))};
    return element("th", attributes, element("button", sort, column + mark));
  });
  const body = rows.map((run) => {
    const open = {type: "button", "data-key": `run ${run.name}`, onclick: () => first.choose(run.name)};
    const cells = run.problem
      ? [element("td", {colspan: Math.max(1, columns.length)}, run.problem)]
      : columns.map((column) => element("td", isNumber(column) ? {class: "number"} : {}, run.figures[column][0]));
    const attributes = shown.includes(run.name) ? {class: "shown"} : {};
    return element("tr", attributes, element("th", {scope: "row"}, element("button", open, run.title)), ...cells);
  });
  table.replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  if (focused) [...table.querySelectorAll("button")].find((one) => one.dataset.key === focused)?.focus();
}

function byValue(one, other) {
  if (one === null || other === null) return (one === null) - (other === null); // what is not known stays last
  const order = typeof one === "number" ? one - other : one.localeCompare(other, undefined, {numeric: true});
  return sortedBy.isDescending ? -order : order;
}

function sortBy(column, isNumber) {
  const isDescending = sortedBy.column === column ? !sortedBy.isDescending : isNumber;
  sortedBy = {column, isDescending};
  drawTable();
}

async function poll() {
  try {
    const answer = await fetch("runs", {cache: "no-store"});
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const told = await answer.json();
    runs = told.runs.sort((one, other) => one.title.localeCompare(other.title, undefined, {numeric: true}));
    setText(status, told.note ?? "");
    update();
  } catch {
    setText(status, "TensorBoard does not answer; what is shown is not up to date.");
  }
  setTimeout(poll, document.hidden ? 5 * POLL_MS : POLL_MS);
}

// What TensorBoard calls once, in a page of the tab's own.
export function render() {
  document.documentElement.lang = "en";
  document.title = "PerfWatch";
  document.head.append(element("link", {rel: "stylesheet", href: "style.css"}));
  document.body.append(
    element("header", {class: "bar"}, element("h1", {}, "PerfWatch"), compareLabel, status),
    list,
    element("main", {class: "panes"}, nothing, first.place, second.place),
  );
  poll();
}
