// What the page does without charts: tables that are sorted by their heads.
"use strict";

function sortBy(table, head) {
  const column = head.cellIndex;
  const isNumber = head.classList.contains("n");
  const was = head.getAttribute("aria-sort");
  // The first click shows the most of a number, and names from A on.
  const order = was === null || was === "none" ? (isNumber ? "descending" : "ascending")
    : was === "ascending" ? "descending" : "ascending";
  const sign = order === "ascending" ? 1 : -1;
  const compare = (one, other) => {
    const a = one.cells[column].dataset.key;
    const b = other.cells[column].dataset.key;
    if (a === undefined || b === undefined) {
      return (a === undefined) - (b === undefined);  // what was not measured stays last
    }
    return sign * (isNumber ? Number(a) - Number(b) : a.localeCompare(b));
  };
  for (const other of table.tHead.rows[0].cells) {
    other.setAttribute("aria-sort", other === head ? order : "none");
  }
  const body = table.tBodies[0];
  body.append(...Array.from(body.rows).sort(compare));
}

document.documentElement.classList.remove("no-script");
for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.tHead.rows[0].cells) {
    head.querySelector("button").addEventListener("click", () => sortBy(table, head));
  }
}
