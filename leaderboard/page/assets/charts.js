// The charts, drawn by Observable Plot as SVG: they take their colours from the page, so they follow its theme.
"use strict";

HB.draw = (place, options, caption) => {
  const width = Math.max(280, Math.min(place.clientWidth || 720, 900));
  const drawn = Plot.plot({ width, style: { background: "none", fontSize: "12px", overflow: "visible" }, ...options });
  drawn.setAttribute("role", "img"); // one picture with a name: nothing within is read or reached by itself
  for (const mark of drawn.querySelectorAll("g[aria-label]")) {
    mark.dataset.mark = mark.getAttribute("aria-label");
    mark.removeAttribute("aria-label");
  }
  for (const link of drawn.querySelectorAll("a")) { // for the mouse alone: the tables have the same links
    const to = link.href.baseVal;
    link.removeAttribute("href");
    link.removeAttributeNS("http://www.w3.org/1999/xlink", "href");
    link.style.cursor = "pointer";
    link.addEventListener("click", () => { window.location.href = to; });
  }
  place.replaceChildren(drawn, HB.el("figcaption", { class: "soft" }, caption));
};

// Categories in colours that the colour-blind can tell apart (Okabe and Ito), as the style sheet has them.
HB.hues = ["blue", "orange", "green", "purple", "red", "sky", "grey"].map(hue => `var(--${hue})`);
HB.families = () => [...new Set(window.HIERBENCH.models.map(model => model.family))];
HB.hue = family => HB.hues[Math.min(HB.families().indexOf(family), HB.hues.length - 1)];

HB.label = column => `${HB.fullName(column)}${HB.unit(column) ? ", " + HB.unit(column) : ""}`;

HB.points = (column, rows) =>
  rows.filter(row => column.value[row] !== null).map(row => ({
    row, model: window.HIERBENCH.models[row], value: column.value[row] * HB.scale(column),
    low: column.low[row] === null ? null : column.low[row] * HB.scale(column),
    high: column.high[row] === null ? null : column.high[row] * HB.scale(column),
    said: `${window.HIERBENCH.models[row].name}: ${HB.said(column, row)}`,
  }));

HB.short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

HB.bars = (place, column, rows) => {
  const points = HB.points(column, rows);
  if (!points.length) {
    place.replaceChildren(HB.el("p", {}, "None of these models has a figure here."));
    return;
  }
  points.sort((a, b) => (column.better === "lower" ? a.value - b.value : b.value - a.value));
  const ranged = points.filter(point => point.low !== null && point.high !== null);
  const narrow = (place.clientWidth || 720) < 520;
  HB.draw(place, {
    height: 66 + 24 * points.length, marginBottom: 44, marginLeft: narrow ? 130 : 210, marginRight: 48,
    ariaLabel: `Bars of ${HB.label(column)}`,
    x: { label: HB.label(column), grid: true, nice: true, labelAnchor: "center", ticks: narrow ? 4 : 8 },
    y: { label: null, domain: points.map(point => point.row), tickSize: 0,
         tickFormat: row => HB.short(window.HIERBENCH.models[row].name, narrow ? 18 : 30) },
    marks: [
      Plot.barX(points, { y: "row", x: "value", fill: point => HB.hue(point.model.family),
                          fillOpacity: point => (HB.isDoubtful(column, point.row) ? 0.2 : 0.75),
                          insetTop: 2, insetBottom: 2, title: "said", href: point => HB.modelLink(point.model) }),
      Plot.link(ranged, { y: "row", x1: "low", x2: "high", stroke: "currentColor", strokeWidth: 1.5 }),
      Plot.tickX(ranged, { y: "row", x: "low", insetTop: 7, insetBottom: 7, stroke: "currentColor" }),
      Plot.tickX(ranged, { y: "row", x: "high", insetTop: 7, insetBottom: 7, stroke: "currentColor" }),
      Plot.text(points, { y: "row", x: point => Math.max(point.high ?? 0, point.value), dx: 6, textAnchor: "start",
                          text: point => HB.printed(column, column.value[point.row]) }),
      Plot.ruleX([0]),
    ],
  }, `${HB.label(column)}${column.better && `, ${column.better} is better`}; lines are 95 % intervals.${
    points.some(point => HB.isDoubtful(column, point.row)) ? " Pale: a figure that says little, or is not that of its items." : ""}`);
};

HB.scatter = (place, across, up, rows) => {
  const second = new Map(HB.points(up, rows).map(point => [point.row, point]));
  const points = HB.points(across, rows).filter(point => second.has(point.row))
    .map(point => ({ ...point, up: second.get(point.row) }));
  if (!points.length) {
    place.replaceChildren(HB.el("p", {}, "None of these models has both figures."));
    return;
  }
  const families = HB.families().filter(family => points.some(point => point.model.family === family));
  HB.draw(place, {
    height: 420, marginLeft: 56, marginBottom: 44, marginRight: 30, marginTop: 30,
    ariaLabel: `${HB.label(up)} against ${HB.label(across)}`,
    x: { label: HB.label(across), grid: true, nice: true, labelAnchor: "center", ticks: 6 },
    y: { label: HB.label(up), grid: true, nice: true },
    marks: [
      Plot.link(points.filter(point => point.low !== null && point.high !== null),
                { x1: "low", x2: "high", y1: point => point.up.value, y2: point => point.up.value,
                  stroke: point => HB.hue(point.model.family), strokeOpacity: 0.6 }),
      Plot.link(points.filter(point => point.up.low !== null && point.up.high !== null),
                { x1: "value", x2: "value", y1: point => point.up.low, y2: point => point.up.high,
                  stroke: point => HB.hue(point.model.family), strokeOpacity: 0.6 }),
      Plot.dot(points, { x: "value", y: point => point.up.value, r: 5, fill: point => HB.hue(point.model.family),
                         symbol: point => HB.symbols[families.indexOf(point.model.family) % HB.symbols.length],
                         title: point => `${point.said}\n${point.up.said}`, href: point => HB.modelLink(point.model) }),
      points.length > 25 ? null : Plot.text(points, { x: "value", y: point => point.up.value, dy: -11,
                         text: point => HB.short(point.model.name, 28) }),
    ],
    symbol: { type: "identity" },
  }, `${points.length} models; lines are 95 % intervals. Families: `);
  const key = HB.el("span", { class: "key" });
  for (const family of families) key.append(HB.el("span", { class: "item", style: `--hue:${HB.hue(family)}` }, family));
  place.querySelector("figcaption").append(key);
};
HB.symbols = ["circle", "square", "triangle", "diamond2", "star", "cross", "wye"];

HB.options = (select, columns, chosen) => {
  select.replaceChildren(...columns.flatMap((column, number) =>
    (column ? [HB.el("option", { value: number, selected: number === chosen }, HB.fullName(column))] : [])));
};
