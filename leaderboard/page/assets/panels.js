// The panels of a model's page: what its captions, scores, classes and items look like.
"use strict";

HB.panels = (place, panels) => {
  const kinds = new Map();
  for (const panel of panels) kinds.set(panel.title, [...(kinds.get(panel.title) || []), panel]);
  for (const [title, entries] of kinds) {
    const id = `panel-${place.children.length}`;
    const section = HB.el("section", { "aria-labelledby": id, class: HB.broad.has(entries[0].kind) ? "broad" : null },
      HB.el("h2", { id }, title));
    place.append(section);
    for (const panel of entries) {
      if (panel.missing) {
        section.append(HB.el("p", { class: "soft" }, `${panel.missing}.`));
        continue;
      }
      section.append(HB.el("h3", {}, `${panel.task}${panel.way === "released" ? "" : `, ${panel.way}`}`));
      const body = HB.el("div", {});
      section.append(body);
      HB.panel[panel.kind](body, panel);
    }
  }
};
HB.broad = new Set(["scores", "tree", "items"]);
HB.panel = {};
HB.level = level => `var(--level-${Math.min(level, 5)})`;
HB.figure = (place, options, caption) => {
  const figure = HB.el("figure", {});
  place.append(figure);
  HB.draw(figure, options, caption);
  return figure;
};
HB.key = (figure, entries) => {
  const key = HB.el("span", { class: "key" });
  for (const [text, hue] of entries) key.append(HB.el("span", { class: "item", style: `--hue:${hue}` }, text));
  figure.querySelector("figcaption").append(" ", key);
};
HB.percent = (part, whole) => `${(100 * part / whole).toFixed(1)} %`;

// ------------------------------------------------------------------------------------------------------ captions

HB.panel.disc = (place, panel) => {
  const reach = Math.max(...panel.points.map(([x, y]) => Math.hypot(x, y)), 1e-6);
  const view = Math.min(1.02, 1.1 * reach);
  const unit = Math.sqrt(panel.curvature);
  const toRadius = distance => Math.tanh(distance * unit / 2); // of a geodesic distance from the root, in the disc
  const steps = d3.ticks(0, 2 * Math.atanh(Math.min(reach, 0.999999)) / unit, 3).filter(step => step > 0);
  const ring = radius => d3.range(0, 361, 3).map(turn => [radius * Math.cos(turn * Math.PI / 180), radius * Math.sin(turn * Math.PI / 180)]);
  const zoom = 1 / view;
  const side = Math.max(280, Math.min(place.clientWidth || 480, 520));
  const figure = HB.figure(place, {
    width: side, height: side, margin: 6, ariaLabel: "Captions in the Poincaré disc, by level",
    x: { domain: [-view, view], axis: null }, y: { domain: [-view, view], axis: null },
    marks: [
      view >= 1 ? Plot.line(ring(1), { stroke: "var(--soft)" }) : null,
      ...steps.map(step => Plot.line(ring(toRadius(step)), { stroke: "var(--line)" })),
      Plot.dot(panel.points, { x: "0", y: "1", r: 2.6, fill: point => HB.level(point[2]), fillOpacity: 0.85,
                               title: point => `level ${point[2]}: ${point[3]}` }),
      Plot.text(steps, { x: 0, y: step => -toRadius(step), text: step => `${step}`, fill: "var(--ink)", stroke: "var(--paper)", strokeWidth: 4 }),
      Plot.dot([[0, 0]], { x: "0", y: "1", symbol: "times", stroke: "var(--ink)", r: 4 }),
    ],
  }, `${panel.shown.toLocaleString("en")} captions${panel.lacking ? ` (of ${panel.lacking.toLocaleString("en")} more the embedding is not in the cache)` : ""
     }, by HoroPCA, which keeps ${(100 * panel.kept).toFixed(0)} % of their variance. ${
     zoom > 1.1 ? `Zoomed ${zoom.toPrecision(2)} times: the disc's edge, at radius 1, lies outside; here the edge of the picture is at ${view.toPrecision(2)}. ` : ""
     }× is the root; rings: distance from it, in the space's own unit (curvature −${panel.curvature.toPrecision(3)}).`);
  HB.key(figure, panel.levels.map(level => [`level ${level}${level === 1 ? ", the most general" : ""}`, HB.level(level)]));
};

HB.panel.radii = (place, panel) => {
  const width = panel.edges[1] - panel.edges[0];
  const steps = panel.groups.flatMap(group => group.counts.map((count, bin) => ({
    level: group.level, low: panel.edges[bin], high: panel.edges[bin + 1], share: count / group.n / width })));
  const most = Math.max(...steps.map(step => step.share));
  HB.figure(place, {
    height: 60 + 62 * panel.groups.length, marginLeft: 64, marginBottom: 40, ariaLabel: "Radii by level of caption",
    x: { label: "distance from the root", grid: true, labelAnchor: "center" }, y: { axis: null, domain: [0, most] },
    fy: { label: null, tickFormat: level => `level ${level}`, axis: "left" },
    marks: [
      Plot.rectY(steps, { fy: "level", x1: "low", x2: "high", y: "share", fill: step => HB.level(step.level), insetLeft: 0.5,
                          title: step => `level ${step.level}: ${step.low} to ${step.high}` }),
      Plot.ruleX(panel.groups, { fy: "level", x: group => group.quantiles[2], stroke: "var(--ink)", strokeWidth: 2 }),
    ],
  }, "Level 1 is the most general; lines are medians.");
  place.append(HB.wide(HB.listing("Quantiles over samples", ["Level", "n", "5 %", "25 %", "median", "75 %", "95 %"],
    panel.groups.map(group => [`${group.level}`, group.n.toLocaleString("en"), ...group.quantiles.map(value => value.toFixed(3))]))));
};

// -------------------------------------------------------------------------------------------------------- scores

HB.panel.scores = (place, panel) => {
  const width = panel.edges[1] - panel.edges[0];
  const bins = (name, hue) => panel[name].counts.map((count, bin) => ({
    hue, low: panel.edges[bin], high: panel.edges[bin + 1], share: count / panel[name].n, count }));
  place.className = "panels"; // the histogram and, where there is room beside it, the curves
  const histogram = HB.el("div", {});
  const boxes = [HB.el("div", {}), HB.el("div", {})]; // all there before the first is measured
  place.append(histogram, HB.el("div", { class: "pair" }, ...boxes));
  const figure = HB.figure(histogram, {
    height: 240, marginLeft: 52, marginBottom: 40, ariaLabel: "Entailment scores of true and false pairs",
    x: { label: `entailment score${panel.definition ? ` (${panel.definition})` : ""}`, labelAnchor: "center" },
    y: { label: "share of the pairs", grid: true, percent: true, type: "sqrt" },
    marks: [["false", "var(--orange)"], ["true", "var(--blue)"]].map(([name, hue]) =>
      Plot.rectY(bins(name, hue), { x1: "low", x2: "high", y: "share", fill: hue, fillOpacity: 0.55, insetLeft: 0.5,
                                    title: bin => `${name} pairs, score ${bin.low} to ${bin.high}: ${bin.count.toLocaleString("en")}` })),
  }, `${HB.percent(panel.zero, 1)} of all scores are exactly 0; shares on a square-root scale.`);
  HB.key(figure, [[`true pairs (${panel.true.n.toLocaleString("en")})`, "var(--blue)"], [`false pairs (${panel.false.n.toLocaleString("en")})`, "var(--orange)"]]);
  const shown = name => {
    const value = panel.figures[name];
    return value === undefined ? "" : ` ${(panel.unit === "fraction" ? 100 * value : value).toFixed(1)} %`;
  };
  const draw = (ariaLabel, x, y, xLabel, yLabel, rule, caption) => {
    HB.figure(boxes.shift(), {
      height: 250, marginLeft: 48, marginBottom: 40, ariaLabel,
      x: { label: xLabel, domain: [0, 100], labelAnchor: "center", ticks: 5 }, y: { label: yLabel, domain: [0, 100], grid: true, ticks: 5 },
      marks: [Plot.line(rule, { stroke: "var(--soft)", strokeDasharray: "4 3" }),
              Plot.line(x.map((value, place) => [100 * value, 100 * y[place]]), { stroke: "var(--blue)", strokeWidth: 2 })],
    }, caption);
  };
  const chance = 100 * panel.true.n / (panel.true.n + panel.false.n);
  draw("ROC curve", panel.fpr, panel.recall, "false pairs called true, %", "true pairs found, %", [[0, 0], [100, 100]],
       `ROC; area${shown("auc")}. Dashed: chance.`);
  draw("Precision–recall curve", panel.recall, panel.precision, "recall, %", "precision, %", [[0, chance], [100, chance]],
       `Precision–recall; average precision${shown("ap")}. Dashed: chance, ${chance.toFixed(1)} %.`);
};

// ---------------------------------------------------------------------------------------------------------- tree

HB.panel.tree = (place, panel) => {
  const below = new Map();
  panel.nodes.forEach(([, parent], number) => below.set(parent, [...(below.get(parent) || []), number]));
  const line = number => {
    const [name, , images, right, within] = panel.nodes[number];
    return [HB.el("span", { class: "name" }, name),
            HB.el("span", { class: "bar", "aria-hidden": "true" }, HB.el("i", { style: `width:${100 * right / images}%` })),
            HB.el("span", {}, `${HB.percent(right, images)} right`),
            HB.el("span", { class: "soft" }, `${below.has(number) ? `, ${HB.percent(within, images)} stay within` : ""}, ${images.toLocaleString("en")} images`)];
  };
  const node = (number, depth) => {
    const children = below.get(number);
    if (!children) return HB.el("li", {}, ...line(number));
    const details = HB.el("details", { open: depth < 2 }, HB.el("summary", {}, ...line(number)));
    const fill = () => {
      if (details.open && details.children.length < 2) details.append(HB.el("ul", {}, ...children.map(child => node(child, depth + 1))));
    };
    details.addEventListener("toggle", fill); // of a large tree, what is open alone is made
    fill();
    return HB.el("li", {}, details);
  };
  const tree = HB.el("div", { class: "tree" }, HB.el("ul", {}, ...(below.get(-1) || []).map(root => node(root, 0))));
  const all = open => () => {
    for (let found = [0]; found.length;) {
      found = [...tree.querySelectorAll("details")].filter(details => details.open !== open);
      for (const details of found) details.open = open;
      if (!open) return;
      for (const details of found) details.dispatchEvent(new Event("toggle"));
    }
  };
  place.append(HB.el("p", { class: "soft" }, "Right: the very class. Stay within: taken for this node or one below it."),
    HB.el("div", { class: "tools" }, HB.el("button", { type: "button", onclick: all(true) }, "Open all"),
          HB.el("button", { type: "button", onclick: all(false) }, "Close all")), tree);
};

// --------------------------------------------------------------------------------------------------------- items

HB.panel.items = (place, panel) => {
  if (panel.lists.some(({ items }) => items.some(item => item.picture))) {
    place.append(HB.el("p", { class: "soft" }, `Thumbnails are of ${panel.dataset}, whose licence holds for them.`));
  }
  for (const { title, items } of panel.lists) {
    place.append(HB.el("h4", {}, title), HB.el("ul", { class: "items" }, ...items.map(item => HB.el("li", {},
      item.picture ? HB.el("img", { src: `${HB.root()}pictures/${item.picture}`, alt: `image ${item.image} of ${panel.dataset}`, loading: "lazy" }) : null,
      item.text, item.says && HB.el("span", { class: "soft" }, ` (${item.says})`),
      item.image ? HB.el("span", { class: "soft id" }, item.image) : null))));
  }
};
