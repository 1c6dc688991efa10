// A figure of the study over the commits of its lock: the program reads each commit's results from the store, and marks
// where a new level begins.

import { address, alertOf, h, here, replace, reshow, select } from "./dom.js";
import { get } from "./api.js";
import { columnWords, digits, plural } from "./format.js";
import { csvText, download, plotOf, svgText } from "./plot.js";

// The tables of an analysis, which each run makes again.
const followed = (overview) => overview.tables.filter((t) => !t.lineage && t.cells === 1 && t.operator);

// Columns of numbers that are not labels.
function numbersOf(reply) {
  const keys = new Set(String(reply.metadata?.keys ?? "").split(/[^\w.-]+/));
  return reply.columns.filter((c) => !keys.has(c.name) && c.values.some((v) => typeof v === "number"));
}

// The most series that are distinguished by colour and shape.
const MOST_SERIES = 12;

export async function historyView(main, study) {
  const { parameters } = here();
  if ((await get([])).bundle) {
    replace(main, h("h1", {}, "History"), h("p", {}, "A bundle has no history: it holds one state of the study. Open the project, with its git repository, to follow a column over commits."));
    return;
  }
  const overview = await get(["studies", study]);
  const tables = followed(overview);
  const chosen = tables.find((t) => t.name === parameters.table) ?? tables.find((t) => t.output === "cells") ?? tables[0];
  const shown = h("div", {}, h("p", { class: "soft" }, "Reading the commits of the lock…"));
  if (!chosen) {
    replace(main, h("h1", {}, "History"), h("p", {}, "This study has no table of results, so there is nothing to follow over time. A stage of kind `analyze` makes one."));
    return;
  }
  const head = await get(["studies", study, "tables", chosen.name], { from: 0, to: 50 });
  const numeric = numbersOf(head);
  const usual = ["output_throughput_mean", "output_throughput", "effect"].find((name) => numeric.some((c) => c.name === name));
  const column = numeric.find((c) => c.name === parameters.column)?.name ?? usual ?? numeric[0]?.name;
  replace(main, h("h1", {}, "History"), h("div", { class: "row" },
    select("Table", tables.map((t) => t.name), chosen.name, (table) => reshow({ table, column: null, only: null })),
    column ? select("Column", numeric.map((c) => [c.name, c.unit && c.unit !== "1" ? `${c.name} [${c.unit}]` : c.name]), column, (name) => reshow({ column: name, only: null })) : null), shown);
  if (!column) {
    replace(shown, h("p", {}, "This table has no column of numbers."));
    return;
  }
  try {
    const found = await get(["studies", study, "history"], { table: chosen.name, column });
    replace(shown, overCommits(study, found, shown, parameters));
  } catch (error) {
    replace(shown, alertOf(error));
  }
}

function overCommits(study, found, shown, parameters) {
  const { commits, series: every, notes } = found;
  const unit = found.unit && found.unit !== "1" ? ` (${found.unit})` : "";
  const title = `${columnWords(found.column)}${unit} over the commits of the lock`;
  const noted = notes.map((n) => h("p", { class: "note" }, `From commit ${n.commit}: no value, because ${n.reason}.`));
  if (!every.length) return [noted, h("p", {}, "No commit has a value. The store must still hold the results that the committed locks name.")];
  const only = every.find((s) => s.name === parameters.only);
  const series = only ? [only] : every.slice(0, MOST_SERIES);
  const changed = every.filter((s) => s.points.some((p) => p.change !== null));
  const step = (s, p) => (s.ratios ? `${p.change > 1 ? "+" : "−"}${digits(Math.abs(p.change - 1) * 100, 3)} %` : `${p.change > 0 ? "+" : "−"}${digits(Math.abs(p.change), 3)}`);
  const told = (s, p) => `${s.name ? `${s.name}, ` : ""}commit ${commits[p.commit].id} of ${commits[p.commit].day}: ${digits(p.value)}${found.unit && found.unit !== "1" ? ` ${found.unit}` : ""}, median of ${plural(p.rows, "row")}${p.same_measurement ? ", the measurement of the value before" : ""}${p.change === null ? "" : `; a new level begins, ${step(s, p)}`}`;
  const picture = (width) => plotOf([{
    lines: series.map((s, i) => ({ series: i, points: s.points.map((p) => [p.commit + 1, p.value]) })),
    marks: series.flatMap((s, i) => s.points.map((p) => ({ series: i, x: p.commit + 1, y: p.value, hollow: p.change === null, title: told(s, p), text: p.change === null ? null : step(s, p) }))),
  }], { x: { label: "commit, oldest first", whole: true, steps: commits.map((_, i) => i + 1) }, y: { label: `${columnWords(found.column)}${unit}` }, names: series.map((s, i) => ({ series: i, text: s.name || found.column })), width, height: 360, label: title });
  const box = h("div", { class: "plot" });
  const draw = () => replace(box, picture(Math.max(300, Math.min(1800, shown.clientWidth || 900))));
  draw();
  let known = shown.clientWidth;
  new ResizeObserver(() => { if (Math.abs(shown.clientWidth - known) > 8) { known = shown.clientWidth; draw(); } }).observe(shown);
  const rows = every.flatMap((s) => s.points.map((p) => [s.name, commits[p.commit].day, commits[p.commit].id, p.value, p.rows, p.change !== null ? step(s, p) : p.same_measurement ? "same measurement" : null, commits[p.commit].subject]));
  const columns = ["series", "day", "commit", `${found.column}${unit}`, "rows", "new level", "message"];
  return [
    h("p", {}, changed.length ? `A new level begins in ${changed.length} of ${plural(every.length, "series", "series")}.` : every.length === 1 ? `${every[0].judgement.replace(/^./, (c) => c.toUpperCase())}.` : `No new level in any of ${plural(every.length, "series", "series")} that can be judged.`,
      h("span", { class: "soft" }, ` ${plural(commits.length, "commit")}. Filled marks begin a new level.`)),
    every.length > 1 ? h("div", { class: "row" }, select("Series", [["", every.length > MOST_SERIES ? `the first ${MOST_SERIES} of ${every.length}` : "all"], ...every.map((s) => [s.name, s.name])], only ? only.name : "", (name) => reshow({ only: name || null }))) : null,
    box, noted,
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => download(svgText(picture(900), title), `${found.column}-history.svg`, "image/svg+xml") }, "Save as SVG"),
      h("button", { type: "button", onclick: () => download(csvText(columns, rows), `${found.column}-history.csv`, "text/csv") }, "Save as CSV")),
    h("h2", {}, "What is known about each series"),
    h("ul", {}, (only ? [only] : every).slice(0, 40).map((s) => h("li", {}, s.name ? h("b", {}, `${s.name}: `) : null, `${s.judgement}.`))),
    h("h2", {}, "Values"),
    h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Values over the commits" }, h("table", {}, h("thead", {}, h("tr", {}, columns.map((c, i) => h("th", { scope: "col", class: [3, 4].includes(i) ? "number" : null }, c)))),
      h("tbody", {}, (only ? rows.filter((r) => r[0] === only.name) : rows).slice(0, 1000).map((row) => h("tr", {}, row.map((v, i) => h("td", { class: [3, 4].includes(i) ? "number" : i === 6 ? "wrap" : null }, typeof v === "number" ? digits(v) : v ?? "–"))))))),
    h("p", { class: "soft" }, "Each value is the median of the rows with these labels, as in the results of that commit. ", h("code", {}, `benchtrail history EXPERIMENT ${found.table}.${found.column}`), " prints the same. ", h("a", { href: address(["study", study, "data"], { table: found.table }) }, "The table as it is now")),
  ];
}
