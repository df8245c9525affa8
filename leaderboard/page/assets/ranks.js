// Ranks with ties: a place with the interval of all ranks, letters for models that cannot be told apart, who is unranked.
"use strict";

// A model's place in a column (null: overall): {rank, low, high, group, of}, {why} where unranked, null where there is none.
HB.place = (column, row) => {
  const { ranks, columns } = window.HIERBENCH;
  if (!ranks) return null;
  const list = column === null ? ranks.overall : ranks.columns[columns.indexOf(column)];
  const own = list ? list[row] : null;
  if (own === null || own === undefined) return null;
  if (typeof own === "number") return { why: ranks.why[own] };
  const [rank, low, high, group] = own;
  return { rank, low, high, group, of: list.filter(Array.isArray).length };
};
HB.ranked = place => (place.low < place.high ? `${place.rank} (${place.low}–${place.high})` : `${place.rank}`);
HB.rankSaid = place => {
  if (place === null) return "";
  if (place.why) return `unranked: ${place.why}`;
  const interval = place.low < place.high ? `, 95 % interval ${place.low} to ${place.high}` : "";
  return `rank ${place.rank} of ${place.of}${interval}, group ${place.group}`;
};

HB.beaten = row => {
  const found = window.HIERBENCH.ranks.points[row];
  return found && found.map(value => (100 * value).toFixed(0));
};
HB.beatenSaid = row => {
  const [own, low, high] = HB.beaten(row);
  return low === high ? own : `${own} (${low}–${high})`;
};

// The ranking of one column, or overall, as a chart and a table; of the models `rows`, whose ranks are among all.
HB.ranking = (place, column, rows) => {
  const data = window.HIERBENCH;
  if (!data.ranks) {
    place.replaceChildren(HB.el("p", { class: "soft" }, `Not ranked: ${data.unranked}.`));
    return;
  }
  const entries = rows.map(row => ({ row, model: data.models[row], place: HB.place(column, row) })).filter(entry => entry.place);
  const ranked = entries.filter(entry => !entry.place.why)
    .sort((a, b) => a.place.rank - b.place.rank || a.model.name.localeCompare(b.model.name, "en"));
  const others = entries.filter(entry => entry.place.why);
  const name = column === null ? "Overall" : HB.fullName(column);
  const figure = HB.el("figure", {});
  place.replaceChildren(figure);
  if (ranked.length) {
    HB.rankChart(figure, name, ranked);
    const said = row => (column === null ? HB.beatenSaid(row) : HB.printed(column, column.value[row]));
    place.append(HB.wide(HB.listing(`Ranking: ${name}`,
      ["Model", "Rank (95 %)", column === null ? "Points (95 %)" : "Figure", "Group"],
      ranked.map(entry => [HB.el("a", { href: HB.modelLink(entry.model) }, entry.model.name),
                           HB.ranked(entry.place), said(entry.row), entry.place.group]))));
  } else {
    figure.append(HB.el("p", {}, entries.length ? "None of these models is ranked." : "There is no ranking here."));
  }
  place.append(...HB.unranked(others));
  if (column === null) place.append(...HB.voting());
};

HB.rankChart = (figure, name, ranked) => {
  const narrow = (figure.clientWidth || 720) < 520;
  const most = Math.max(...ranked.map(entry => entry.place.of));
  HB.draw(figure, {
    height: 60 + 22 * ranked.length, marginBottom: 40, marginLeft: narrow ? 130 : 210, marginRight: 60,
    ariaLabel: `Ranks with their intervals: ${name}. The table below has them as text`,
    x: { label: "rank", labelAnchor: "center", domain: [0.5, most + 0.5], grid: true, ticks: Math.min(most, narrow ? 6 : 12), tickFormat: rank => (Number.isInteger(rank) ? `${rank}` : "") },
    y: { label: null, domain: ranked.map(entry => entry.row), tickSize: 0,
         tickFormat: row => HB.short(window.HIERBENCH.models[row].name, narrow ? 18 : 30) },
    marks: [
      Plot.link(ranked, { y: "row", x1: entry => entry.place.low, x2: entry => entry.place.high, strokeWidth: 4,
                          strokeLinecap: "round", strokeOpacity: 0.5, stroke: entry => HB.hue(entry.model.family) }),
      Plot.dot(ranked, { y: "row", x: entry => entry.place.rank, r: 5, fill: entry => HB.hue(entry.model.family),
                         href: entry => HB.modelLink(entry.model), title: entry => `${entry.model.name}: ${HB.rankSaid(entry.place)}` }),
      Plot.text(ranked, { y: "row", x: entry => entry.place.high, dx: 12, textAnchor: "start", text: entry => HB.short(entry.place.group, 8) }),
    ],
  }, "Dots are ranks, lines all ranks that cannot be ruled out (95 %, all pairs together); models that share a letter cannot be told apart.");
};

HB.unranked = others => {
  if (!others.length) return [];
  const list = HB.el("ul", {}, ...others.map(entry => HB.el("li", {}, HB.el("b", {}, entry.model.name), `: ${entry.place.why}`)));
  return [HB.el("details", { open: others.length < 6 }, HB.el("summary", {}, `Unranked: ${others.length}`), list)];
};

// What the overall order is over, and which columns have no vote, with the reason.
HB.voting = () => {
  const { ranks, columns } = window.HIERBENCH;
  const over = `Over ${ranks.voting.length} columns, those of one task sharing one vote; points: the share of the other models that it beats, in %.`;
  const silent = ranks.silent.map(([number, why]) => HB.el("li", {}, HB.el("b", {}, HB.fullName(columns[number])), `: ${why}`));
  const list = silent.length ? HB.el("details", {}, HB.el("summary", {}, `Columns without a vote: ${silent.length}`), HB.el("ul", {}, ...silent)) : null;
  return [HB.el("p", { class: "soft" }, over), list].filter(Boolean);
};
