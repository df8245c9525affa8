// What all pages share: the theme, building elements (texts are never read as HTML), printing figures, provenance.
"use strict";
const HB = {};

HB.stored = (name, value) => {
  try {
    if (value === undefined) return localStorage.getItem(`hierbench-${name}`) || "";
    localStorage.setItem(`hierbench-${name}`, value);
  } catch { /* no storage: the choice lasts as long as the page */ }
  return "";
};
HB.setTheme = theme => {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
};
HB.setTheme(HB.stored("theme"));
document.documentElement.classList.add("scripts");

// An element: attributes by name (`on…` are listeners), children are elements or texts.
HB.el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
};

HB.root = () => document.body.dataset.root;
HB.modelLink = model => `${HB.root()}models/${encodeURIComponent(model.page)}.html`;
HB.taskLink = task => `${HB.root()}tasks/${encodeURIComponent(task.page)}.html`;

// Figures as hierbench's tables print them.
HB.scale = column => (column.unit === "fraction" ? 100 : 1);
HB.printed = (column, value) =>
  value === null ? "–" : HB.rounded(value * HB.scale(column), column.unit === "raw" ? 2 : 1).replace(/^-(0\.?0*)$/, "$1");
// As Python rounds: of two decimals that lie equally near, the even one. toFixed goes away from zero, and is exact elsewhere.
HB.rounded = (number, digits) => {
  const away = number.toFixed(digits);
  const halves = Math.abs(number) * 2 ** (digits + 1); // exact; odd for those numbers alone that lie in the middle
  const odd = Number(away.at(-1)) % 2 === 1;
  return halves % 2 === 1 && odd ? away.slice(0, -1) + (Number(away.at(-1)) - 1) : away;
};
HB.arrow = column => ({ higher: "↑", lower: "↓" })[column.better] || "";
HB.unit = column => (column.unit === "raw" ? "" : "%");
HB.heading = column => [column.title, HB.arrow(column), column.variant && `(${column.variant})`].filter(Boolean).join(" ");
HB.fullName = column => `${column.group}: ${HB.heading(column)}`;
HB.size = (column, row) => (Array.isArray(column.n) ? column.n[row] : column.n);
HB.interval = (column, row) =>
  column.low[row] === null || column.high[row] === null
    ? "" : `${HB.printed(column, column.low[row])} to ${HB.printed(column, column.high[row])}`;
HB.notes = (column, row) => ((column.notes || {})[row] || []).map(note => window.HIERBENCH.notes[note]);
HB.isBest = (column, row) => (column.best || []).includes(row);
HB.isDoubtful = (column, row) => (column.doubtful || []).includes(row); // says little, or is not that of its items

// What a screen reader says, and what stands there on hover.
HB.said = (column, row) => {
  const value = column.value[row];
  const notes = HB.notes(column, row);
  if (value === null) return ["no figure", ...notes].join("; ");
  const place = HB.place(column, row);
  const interval = HB.interval(column, row);
  const n = HB.size(column, row);
  return [
    `${HB.printed(column, value)}${HB.unit(column) && " " + HB.unit(column)}`,
    interval && `95 % interval ${interval}`,
    n && `n = ${n.toLocaleString("en")}`,
    HB.isBest(column, row) && "best of its column",
    place && notes.includes(place.why) ? "unranked" : HB.rankSaid(place),
    HB.isDoubtful(column, row) && "doubtful",
    ...notes,
  ].filter(Boolean).join("; ");
};

// A figure as a button that opens its provenance.
HB.cell = (column, row, withInterval) => {
  const text = HB.printed(column, column.value[row]);
  const said = HB.said(column, row);
  const button = HB.el("button", {
    type: "button", class: HB.isBest(column, row) ? "cell best" : "cell", title: said,
    "aria-label": `${window.HIERBENCH.models[row].name}, ${HB.fullName(column)}: ${said}`,
    "aria-haspopup": "dialog", onclick: () => HB.provenance(column, row),
  }, text);
  if (column.value[row] !== null && HB.notes(column, row).length) {
    const doubtful = HB.isDoubtful(column, row);
    button.append(HB.el("sup", { "aria-hidden": "true", class: doubtful ? "doubtful" : null }, doubtful ? "!" : "*"));
  }
  if (withInterval && HB.interval(column, row)) {
    const half = (column.high[row] - column.low[row]) / 2;
    button.append(HB.el("span", { class: "interval" }, `±${HB.printed(column, half)}`));
  }
  return button;
};

HB.facts = pairs => {
  const list = HB.el("dl", { class: "facts" });
  for (const [name, value] of pairs) {
    const shown = typeof value === "object" ? JSON.stringify(value) : String(value);
    list.append(HB.el("div", {}, HB.el("dt", {}, name), HB.el("dd", {}, shown)));
  }
  return list;
};

HB.listing = (caption, heads, rows) => HB.el("table", {},
  HB.el("caption", {}, caption),
  HB.el("thead", {}, HB.el("tr", {}, ...heads.map(head => HB.el("th", { scope: "col" }, head)))),
  HB.el("tbody", {}, ...rows.map(([first, ...others]) => HB.el("tr", {},
    HB.el("th", { scope: "row" }, first), ...others.map(entry => HB.el("td", {}, entry))))));
HB.wide = table => HB.el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": table.caption.textContent }, table);

HB.provenance = (column, row) => {
  const data = window.HIERBENCH;
  const model = data.models[row];
  const dialog = document.getElementById("provenance");
  const body = document.getElementById("provenance-body");
  document.getElementById("provenance-title").textContent = `${model.name} · ${HB.fullName(column)}`;
  const links = HB.el("p", {}, HB.el("a", { href: HB.modelLink(model) }, "the model"));
  if (column.task !== null) links.append(" · ", HB.el("a", { href: HB.taskLink(data.tasks[column.task]) }, "the task"));
  const parts = [HB.el("p", { class: "figure" }, HB.said(column, row)), links];
  const record = column.record[row];
  if (record !== null) {
    const facts = [...data.records[record], ...model.shared].map(fact => data.facts[fact]);
    parts.push(HB.facts([["metric", column.metric], ...facts]));
  } else if (column.over.length) {
    parts.push(HB.el("p", {}, `The mean of ${column.metric} over ${column.over.join(", ")}.`));
  } else parts.push(HB.el("p", {}, "This task was not run for this model."));
  body.replaceChildren(...parts);
  dialog.showModal();
  document.getElementById("provenance-title").focus();
};

document.addEventListener("DOMContentLoaded", () => {
  const select = document.getElementById("theme");
  select.value = HB.stored("theme");
  select.addEventListener("change", () => {
    HB.stored("theme", select.value);
    HB.setTheme(select.value);
  });
});
