// The first page: the table with its filters and columns, the bars, the scatter.
"use strict";

const MOST = 40; // columns at first: the browser lays out as many in an instant

HB.board = () => {
  const data = window.HIERBENCH;
  const byId = id => document.getElementById(id);
  const about = [
    ...(data.ranks ? [["rank", "Rank"]] : []), ["family", "Family"], ["trained_on", "Trained on"], ["parameters", "Parameters"], ["geometry", "Geometry"],
    ["licence", "Licence"],
  ];
  const own = data.columns.flatMap((column, number) => (column.shown ? [number] : []));
  const first = own.filter(number => own.findIndex(other => data.columns[other].task === data.columns[number].task) === own.indexOf(number));
  const chosen = (own.length > MOST ? first : own).slice(0, MOST); // of many, one a task
  const shown = new Set([...(data.ranks ? ["rank"] : []), "family", ...chosen]);
  let kept = data.models.map((_, row) => row); // after filtering

  // -------------------------------------------------------------------------------------------------- columns

  const head = text => () => HB.el("button", { type: "button", class: "head", title: `Sort by ${text}` }, text);
  const inOrder = (a, b, aRow, bRow, column, direction) => { // gaps stay below, whichever way
    if (a === b) return 0;
    if (a === null) return direction === "asc" ? 1 : -1;
    if (b === null) return direction === "asc" ? -1 : 1;
    return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
  };
  // Widths by the length of texts: to have them measured takes seconds where there are many columns.
  const wide = (texts, least, most, beside = 26) => Math.min(most, Math.max(least, beside + 8 * Math.max(0, ...texts.map(text => text.length))));
  const words = heading => `${heading}  `.split(/(?<=[-→(]) ?| (?![↑↓ ])/); // an arrow stays with its word
  const height = () => (byId("show-intervals").checked ? 52 : 33); // of a row, not measured either
  const plain = { headerSortTristate: false, sorter: inOrder, resizable: false };
  const said = (field, row, value) => {
    const place = field === "rank" && HB.place(null, row);
    if (place) return HB.el("span", { title: `Overall: ${HB.rankSaid(place)}` }, place.why ? "–" : HB.ranked(place));
    return document.createTextNode(value === null ? "–" : field === "parameters" ? HB.millions(value) : value);
  };
  const columns = () => {
    const withIntervals = byId("show-intervals").checked;
    const narrow = window.innerWidth < 640;
    const found = [{
      ...plain, title: "Model", field: "name", frozen: !narrow, titleFormatter: head("Model"),
      width: wide(data.models.map(model => model.name), 110, narrow ? 150 : 290),
      formatter: cell => HB.el("a", { href: HB.modelLink(data.models[cell.getData().row]) }, cell.getValue()),
    }];
    for (const [field, title] of about) {
      if (!shown.has(field)) continue;
      const texts = data.models.map((model, row) => said(field, row, model[field]).textContent);
      found.push({ ...plain, title, field, width: wide([`${title}  `, ...texts], 60, 240), titleFormatter: head(title),
                   hozAlign: field === "parameters" ? "right" : "left",
                   formatter: cell => said(field, cell.getData().row, cell.getValue()) });
    }
    for (const [number, column] of data.columns.entries()) {
      if (!shown.has(number)) continue;
      const one = {
        ...plain, title: "", field: `c${number}`,
        width: wide(words(HB.heading(column)), withIntervals ? 84 : 76, 190, 42), hozAlign: "right", headerHozAlign: "right",
        titleFormatter: head(HB.heading(column)), headerSortStartingDir: column.better === "lower" ? "asc" : "desc",
        formatter: cell => HB.cell(column, cell.getData().row, withIntervals),
      };
      const last = found[found.length - 1];
      if (last.columns && last.group === column.group) last.columns.push(one);
      else found.push({ title: "", group: column.group, titleFormatter: () => HB.el("span", {}, column.group), columns: [one] });
    }
    return found.map(({ group, ...definition }) => definition);
  };

  const rows = data.models.map((model, row) => {
    const made = { row, name: model.name };
    for (const [field] of about) made[field] = field === "rank" ? ((HB.place(null, row) || {}).rank ?? null) : model[field];
    for (const [number, column] of data.columns.entries()) made[`c${number}`] = column.value[row];
    return made;
  });

  const table = new Tabulator(byId("table"), {
    data: rows, columns: columns(), layout: "fitData", rowHeight: height(),
    ...(rows.length > 20 ? { height: "75vh" } : { maxHeight: "75vh" }), nestedFieldSeparator: false, index: "row",
    placeholder: () => HB.el("span", {}, "No model passes the filters."), columnHeaderSortMulti: true,
  });
  HB.table = table;

  const chooser = byId("column-list");
  const choice = (key, text, title) => HB.el("label", { class: "check", title },
    HB.el("input", { type: "checkbox", checked: shown.has(key), "data-column": key, onchange: event => {
      if (event.target.checked) shown.add(key); else shown.delete(key);
      table.setColumns(columns());
      filtered();
    } }), text);
  const fieldset = (title, ...choices) => HB.el("fieldset", {}, HB.el("legend", {}, title), ...choices);
  const groups = new Map();
  for (const [number, column] of data.columns.entries()) {
    if (!groups.has(column.group)) groups.set(column.group, []);
    groups.get(column.group).push(choice(number, HB.heading(column), column.key));
  }
  chooser.append(fieldset("Model", ...about.map(([field, title]) => choice(field, title, title))));
  for (const [group, choices] of groups) chooser.append(fieldset(group, ...choices));

  // -------------------------------------------------------------------------------------------------- filters

  for (const field of ["family", "trained_on", "geometry", "licence"]) {
    const values = [...new Set(data.models.map(model => model[field]))].sort();
    byId(`filter-${field}`).append(HB.el("option", { value: "" }, "all"),
      ...values.map((value, number) => HB.el("option", { value: `=${value}` }, value)));
  }
  const passes = row => {
    const model = data.models[row];
    if (!model.name.toLowerCase().includes(byId("filter-name").value.trim().toLowerCase())) return false;
    for (const field of ["family", "trained_on", "geometry", "licence"]) {
      const wanted = byId(`filter-${field}`).value;
      if (wanted && wanted !== `=${model[field]}`) return false;
    }
    const [least, most] = [byId("filter-least").value, byId("filter-most").value];
    if ((least || most) && model.parameters === null) return false;
    return (!least || model.parameters >= least * 1e6) && (!most || model.parameters <= most * 1e6);
  };
  const filtered = when => {
    kept = rows.map(row => row.row).filter(passes);
    const passing = new Set(kept);
    if (kept.length < rows.length || table.getFilters().length) table.setFilter(row => passing.has(row.row));
    byId("count").textContent = `${kept.length} of ${rows.length} models`;
    byId("chosen").textContent = `: ${[...shown].filter(Number.isInteger).length} of ${data.columns.length} metrics shown`;
    if (when === "later") setTimeout(draw); else draw(); // at first, the table is seen before the charts are made
  };
  byId("filters").addEventListener("input", () => filtered());
  byId("filters").addEventListener("submit", event => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(() => { table.setColumns(columns()); filtered(); }));
  byId("show-intervals").addEventListener("change", () => {
    table.options.rowHeight = height();
    table.setColumns(columns());
  });

  // --------------------------------------------------------------------------------------------------- charts

  const one = Math.max(0, data.columns.findIndex(column => column.shown));
  const other = data.columns.findIndex((column, number) => column.shown && number > one && column.group !== data.columns[one].group);
  HB.options(byId("bar-metric"), data.columns, one);
  byId("rank-metric").append(HB.el("option", { value: "" }, "Overall (Borda)"));
  for (const [number, column] of data.columns.entries()) {
    if (data.ranks && data.ranks.columns[number]) byId("rank-metric").append(HB.el("option", { value: number }, HB.fullName(column)));
  }
  HB.options(byId("scatter-x"), data.columns, one);
  HB.options(byId("scatter-y"), data.columns, other < 0 ? one : other);
  const column = id => data.columns[byId(id).value];
  const draw = () => {
    if (!data.columns.length) return;
    HB.ranking(byId("ranking"), column("rank-metric") || null, kept);
    HB.bars(byId("bars"), column("bar-metric"), kept);
    HB.scatter(byId("scatter"), column("scatter-x"), column("scatter-y"), kept);
  };
  for (const id of ["rank-metric", "bar-metric", "scatter-x", "scatter-y"]) byId(id).addEventListener("change", draw);
  let waiting = 0;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (window.innerWidth !== width) { width = window.innerWidth; table.setColumns(columns()); draw(); }
    }, 200);
  });
  // What Tabulator says to screen readers of groups of columns and of its scrolling box is no ARIA; the buttons within are reached.
  const mended = () => {
    for (const group of byId("table").querySelectorAll(".tabulator-col-group")) {
      group.setAttribute("role", "presentation");
      group.removeAttribute("aria-sort");
    }
    for (const column of byId("table").querySelectorAll("[aria-title]")) column.removeAttribute("aria-title");
    byId("table").querySelector(".tabulator-tableholder").removeAttribute("tabindex");
  };
  table.on("tableBuilt", mended);
  table.on("columnsLoaded", mended);
  table.on("tableBuilt", () => filtered("later"));
};

HB.millions = parameters => (parameters >= 1e9 ? `${(parameters / 1e9).toPrecision(3)} B` : `${(parameters / 1e6).toPrecision(3)} M`);

document.addEventListener("DOMContentLoaded", HB.board);
