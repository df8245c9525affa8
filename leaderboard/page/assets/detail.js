// The page of a model and the page of a task.
"use strict";

HB.modelPage = () => {
  const data = window.HIERBENCH;
  const row = Number(document.body.dataset.row);
  const rows = [];
  for (const column of data.columns) {
    if (column.value[row] === null && !(column.shown && column.record[row] !== null)) continue;
    const task = column.task === null ? null : data.tasks[column.task];
    const place = HB.place(column, row);
    rows.push([
      HB.el("span", {}, HB.fullName(column)),
      HB.cell(column, row), HB.interval(column, row) || "–",
      place && !place.why ? `${HB.ranked(place)} of ${place.of}` : "–", (place && place.group) || "–",
      task === null ? `mean over ${column.over.length} tasks` : HB.el("a", { href: HB.taskLink(task) }, task.name),
    ]);
  }
  document.getElementById("figures").append(HB.listing("Every figure of this model; press one for where it comes from",
    ["Metric", "Figure", "95 % interval", "Rank (95 %)", "Group", "Task"], rows));
  const place = HB.place(null, row);
  const said = place ? `Overall: ${HB.rankSaid(place)}` : `Not ranked: ${data.unranked}`;
  const points = place && !place.why ? `; it beats ${HB.beatenSaid(row)} % of the others` : "";
  document.getElementById("overall").textContent = `${said}${points}.`;
  HB.panels(document.getElementById("panels"), window.HIERBENCH_PANELS);
};

HB.taskPage = () => {
  const data = window.HIERBENCH;
  const columns = data.columns.map(column => (column.task === Number(document.body.dataset.number) ? column : null));
  const own = columns.filter(column => column && column.value.some(value => value !== null));
  if (!own.length) {
    document.getElementById("bars").replaceChildren(HB.el("p", {}, "No model has a figure."));
    document.getElementById("bar-metric").disabled = true;
    return;
  }
  const select = document.getElementById("bar-metric");
  HB.options(select, columns.map(column => (own.includes(column) ? column : null)), columns.indexOf(own[0]));
  const rows = data.models.map((_, row) => row);
  const draw = () => {
    HB.bars(document.getElementById("bars"), columns[select.value], rows);
    HB.ranking(document.getElementById("ranking"), columns[select.value], rows);
  };
  select.addEventListener("change", draw);
  draw();
  document.getElementById("figures").append(HB.listing("Every figure of this task",
    ["Model", ...own.map(column => (own.filter(other => HB.heading(other) === HB.heading(column)).length > 1 ? HB.fullName : HB.heading)(column))],
    rows.filter(row => own.some(column => column.value[row] !== null)).map(row => [
      HB.el("a", { href: HB.modelLink(data.models[row]) }, data.models[row].name),
      ...own.map(column => HB.cell(column, row)),
    ])));
};

document.addEventListener("DOMContentLoaded", () =>
  document.body.dataset.page === "model" ? HB.modelPage() : HB.taskPage());
