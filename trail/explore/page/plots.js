// Plots of a study: results against each other, distributions over requests, goodput under bounds that a reader moves,
// and requests over time. Each can be saved as SVG, as CSV, and as the YAML of a report figure.

import { address, alertOf, cellLink, cellText, facts, h, here, replace, reshow, select } from "./dom.js";
import { get, isFile, table } from "./api.js";
import { betterOf, byLabel, columnWords, digits, plural, readsStage, unitOrNull, valuesOf, withUnit } from "./format.js";
import { brushed, csvText, download, plotOf, svgText } from "./plot.js";
import { figureText } from "./figure.js";

const KINDS_OF_PLOT = [["trade", "throughput against latency"], ["frontier", "frontier: a user's speed and a GPU's output"], ["latency", "distributions of latencies"], ["goodput", "goodput under bounds"], ["time", "requests running and waiting"]];
const ACROSS = ["plot", "stage", "table", "x", "metric", "cell"];
const LATENCIES = [["ttft_ms", "time to first token (TTFT)"], ["tpot_ms", "time per output token (TPOT)"], ["e2e_latency_ms", "end to end"], ["ttft_scheduled_ms", "TTFT from when it was due"], ["e2e_scheduled_ms", "end to end from when it was due"], ["decode_rate", "decode rate"], ["prefill_rate", "prefill rate"]];

export async function plotsView(main, study) {
  const { parameters } = here();
  const [overview, cells] = await Promise.all([get(["studies", study]), get(["studies", study, "cells"])]);
  const kind = KINDS_OF_PLOT.some(([k]) => k === parameters.plot) ? parameters.plot : "trade";
  const loads = cells.stages.filter((s) => s.class === "measurement");
  const stage = loads.find((s) => s.name === parameters.stage) ?? loads[0];
  // A span of one quantity has no meaning for another.
  const again = (change) => reshow(ACROSS.some((name) => name in change) ? { span: null, ...change } : change);
  const shown = h("div", {}, h("p", { class: "soft" }, "Reading…"));
  replace(main, h("h1", {}, "Plots"), h("div", { class: "row" },
    select("Plot", KINDS_OF_PLOT, kind, (plot) => again({ plot, x: null, y: null, table: null })),
    loads.length > 1 ? select("Stage", loads.map((s) => s.name), stage?.name, (name) => again({ stage: name, table: null, series: null, facet: null })) : null), shown);
  const context = { study, overview, stage, parameters, again, shown };
  try {
    if (!stage) throw new Error("this study measured nothing");
    await { trade, frontier, latency, goodput, time }[kind](context);
  } catch (error) {
    replace(shown, alertOf(error));
  }
}

// The common parts of all plots: a picture, its downloads, and its rows as a table for readers who cannot see it.
function put(context, { controls, picture: drawn, title, notes = [], empty = false, columns, rows: every, across, figure, facts: told }) {
  const { again, parameters } = context;
  const span = across === undefined ? null : spanOf(parameters.span);
  const inside = (row) => !span || (Number(row[across]) >= span[0] && Number(row[across]) <= span[1]);
  const rows = () => every().filter(inside);
  const picture = (width) => drawn(width, span);
  const save = h("div", { class: "row" },
    h("button", { type: "button", onclick: () => download(svgText(picture(900), title), `${name(title)}.svg`, "image/svg+xml") }, "Save as SVG"),
    h("button", { type: "button", onclick: () => download(csvText(columns, rows()), `${name(title)}.csv`, "text/csv") }, "Save as CSV"));
  const box = h("div", { class: "plot" });
  const choose = (chosen) => again({ span: chosen && chosen.map((v) => Number(v.toPrecision(5))).join(",") });
  if (empty) {
    replace(context.shown, h("div", { class: "row" }, controls), h("p", { class: "note" }, NOTHING), notes.map((n) => h("p", { class: "soft" }, n)));
    return () => {};
  }
  const draw = () => { const shown = picture(Math.max(300, Math.min(1800, context.shown.clientWidth || 900))); if (across !== undefined) brushed(shown, choose); replace(box, shown); };
  replace(context.shown, h("div", { class: "row" }, controls), box, across === undefined ? null : spanControls(columns[across], span, choose, () => [rows().length, every().length]), notes.map((n) => h("p", { class: "soft" }, n)), told ? facts(told) : null, save,
    h("details", { class: "twin", ontoggle: (event) => { if (event.target.open) replace(event.target.lastChild, twin(columns, rows())); } }, h("summary", {}, "The same as a table"), h("div")),
    figure ? h("details", { class: "yaml" }, h("summary", {}, "As a figure of the report (YAML)"), h("p", { class: "soft" }, "Put it into the experiment, and run it again. Nothing is measured again."), h("pre", { tabindex: "0" }, figure)) : null);
  draw();
  let known = context.shown.clientWidth;
  new ResizeObserver(() => { if (Math.abs(context.shown.clientWidth - known) > 8) { known = context.shown.clientWidth; draw(); } }).observe(context.shown);
  return draw;
}

// A span of the horizontal axis, as in the address.
function spanOf(text) {
  const [from, to] = (text ?? "").split(",").map(Number);
  return text && to > from ? [from, to] : null;
}

// The keyboard equivalent of a drag over the plot, and the remaining rows.
function spanControls(name, span, choose, counts) {
  const [from, to] = ["from", "to"].map((word, i) => h("input", { type: "number", step: "any", size: "8", value: span ? String(span[i]) : "", "aria-label": `${name}: ${word}`, "data-control": `span-${word}`, onchange: typed }));
  function typed() {
    const asked = [Number(from.value), Number(to.value)];
    if (from.value !== "" && to.value !== "" && asked[1] > asked[0]) choose(asked);
  }
  const [n, all] = span ? counts() : [0, 0];
  return h("div", { class: "row" }, h("label", {}, `${name}, from`, from), h("label", {}, "to", to), span ? h("button", { type: "button", "data-control": "span-all", "data-or": "span-from", onclick: () => choose(null) }, "All") : null,
    h("p", { class: "soft", role: "status" }, span ? `${n.toLocaleString("en-US")} of ${plural(all, "row")} of the table are in the span.` : "Drag over a plot to choose a span."));
}

const name = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

function twin(columns, rows) {
  const most = 500;
  return [h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Table of the plot" }, h("table", {}, h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", {}, rows.slice(0, most).map((row) => h("tr", {}, row.map((v) => h("td", { class: typeof v === "number" ? "number" : null }, typeof v === "number" ? digits(v) : v ?? "–"))))))),
  rows.length > most ? h("p", { class: "soft" }, `The first ${most} of ${plural(rows.length, "row")}; the CSV has all.`) : null];
}

// The axes of a stage with more than one label; `repeats` marks those that only number repetitions.
function axesOf({ stage, overview }) {
  const labels = stage.axes.map((_, i) => [...new Set(stage.cells.map((c) => c.labels[i]))].sort(byLabel));
  const repeats = new Set([...(overview.replicates ?? []), "block"]);
  return stage.axes.map((axis, i) => ({ axis, labels: labels[i], repeats: repeats.has(axis) })).filter((a) => a.labels.length > 1);
}

const isNumber = (label) => typeof label === "number" || /^-?\d+(\.\d+)?$/.test(String(label));

// The axes for colour, panels and lines: the reader's choice, or the default.
function rolesOfAxes(axes, parameters) {
  const free = axes.filter((a) => !a.repeats);
  const along = free.filter((a) => a.labels.every(isNumber)).sort((a, b) => b.labels.length - a.labels.length)[0]?.axis ?? null;
  const rest = free.filter((a) => a.axis !== along);
  const pick = (asked, usual) => (asked === "none" ? null : free.some((a) => a.axis === asked) ? asked : usual);
  const series = pick(parameters.series, rest[0]?.axis ?? null);
  const facet = pick(parameters.facet, rest.find((a) => a.axis !== series && a.labels.length <= 12)?.axis ?? null);
  return { along, series, facet };
}

function axisControls(axes, roles, again) {
  const list = [["none", "none"], ...axes.filter((a) => !a.repeats).map((a) => [a.axis, a.axis])];
  return [select("Colour by", list, roles.series ?? "none", (series) => again({ series })), select("Panel for each", list, roles.facet ?? "none", (facet) => again({ facet }))];
}

// Axes that are neither colour, panel, line nor repetition: one label is selected, so that nothing is pooled silently.
function keptLabels(axes, roles, parameters, again) {
  const used = new Set(Object.values(roles));
  const kept = axes.filter((a) => !a.repeats && !used.has(a.axis)).map((a) => {
    const asked = parameters[`only.${a.axis}`];
    return { axis: a.axis, label: a.labels.find((l) => String(l) === asked) ?? a.labels[0], labels: a.labels };
  });
  return { kept, controls: kept.map((k) => select(k.axis, k.labels.map((l) => [String(l), `only ${l}`]), String(k.label), (label) => again({ [`only.${k.axis}`]: label }))) };
}

const labelled = (axis, label) => (isNumber(label) ? `${axis} ${label}` : String(label));

// Rows of a table of cells as marks; a line joins the means over repetitions. Another load stage may have the same axes, so
// only a table that reads the shown stage is taken by itself.
async function cellsTable(context) {
  const { overview, study, parameters, stage } = context;
  const cells = overview.tables.filter((t) => t.operator === "cell-summary" && !t.lineage);
  const own = cells.filter((t) => !t.reads || readsStage(t, stage.name));
  const found = overview.tables.find((t) => t.name === parameters.table && !t.lineage) ?? own[0];
  if (!found) throw Object.assign(new Error(`this study has no table of the cells of ${stage.name}`), { hint: "A table of the operator `cell-summary` in an analyze stage has throughput and latency of each cell." });
  const read = await table(study, found.name, { from: 0, to: 50000 });
  const axes = axesOf({ ...context, stage }).filter((a) => read.has(a.axis));
  return { read, name: found.name, tables: [...new Set([...own, found].map((t) => t.name))], axes, values: valuesOf(found, stage) };
}

// The cells of the stage that have no row in a table of cells, in words: the operator reads only ok cells that no gate
// excluded.
function cellsWithoutRow({ stage }, kept) {
  const shown = stage.cells.filter((c) => kept.every((k) => { const i = stage.axes.indexOf(k.axis); return i < 0 || String(c.labels[i]) === String(k.label); }));
  return leftOut(shown.map((c) => ({ cells: 1, cells_not_ok: c.status === "ok" ? 0 : 1, cells_excluded: c.status === "ok" && c.excluded ? 1 : 0 })));
}

// What is to be said if a table of cells has nothing to draw.
function nothingOf(context, found) {
  const out = cellsWithoutRow(context, []);
  const reasons = [...new Set(context.stage.cells.map((c) => c.reason ?? c.excluded).filter(Boolean))];
  return Object.assign(new Error(found.read.rows_in_all ? `no column of ${found.name} has a number` : `${found.name} has no row${out.length ? `. ${out.join("; ")}` : ""}`), { hint: `${reasons.length ? `The first reason: ${reasons[0]}. ` : ""}The view Cells shows the state of each cell.` });
}

// The cells that have a row and no value of a column, in words, with the reason as far as the table has it.
function withoutValue({ read }, rows, column, labelOf) {
  const missing = rows.filter((i) => column.value(i) === null);
  if (!missing.length) return [];
  const counts = new Map();
  for (const i of missing) counts.set(labelOf(i), (counts.get(labelOf(i)) ?? 0) + 1);
  const series = [...counts].filter(([name]) => name !== "").map(([name, n]) => `${name}: ${n.toLocaleString("en-US")}`);
  const quantile = /_(p\d+)(?:_low|_high)?$/.exec(column.name)?.[1];
  const refused = quantile ? read.column(/_(low|high)$/.test(column.name) ? "intervals_refused" : "quantiles_refused") : null;
  const reasons = new Set(missing.map((i) => (refused?.values[i] ?? "").split("; ").find((part) => part.startsWith(`${quantile} `))).filter(Boolean));
  const [first] = reasons;
  const why = first ? `: refused, ${first}${reasons.size > 1 ? `, and ${plural(reasons.size - 1, "other reason")}` : ""}` : ": the rows have none";
  return [`${missing.length.toLocaleString("en-US")} of ${plural(rows.length, "cell")} ${missing.length === 1 ? "has" : "have"} no ${column.words}${series.length ? ` (${series.join("; ")})` : ""}${why}`];
}

// The points that have no place on a logarithmic axis, in words.
function withoutLogarithm(points, axes) {
  return axes.flatMap(([column, of]) => {
    const n = points.filter((p) => of(p) <= 0).length;
    return n ? [`${plural(n, "cell")} ${n === 1 ? "has" : "have"} no mark, because ${columnWords(column.name)} is zero or less and its axis logarithmic.`] : [];
  });
}

// Which way of an axis is better, as far as a column's name tells.
const better = (name) => (betterOf(name) ? `; ${betterOf(name)} is better` : "");

const unitText = (column) => `${columnWords(column.name)}${unitOrNull(column.unit) ? ` (${column.unit})` : ""}`;

// The rows of a table of cells as points; `x` and `y` are `{ name, words, value(row) }`. Rows without a value give no point: `notes`
// names them, and their series keep their place in the legend.
function pointsOf(context, found, roles, kept, x, y) {
  const { read, axes } = found;
  const repeats = axes.filter((a) => a.repeats).map((a) => a.axis);
  const label = (axis, i) => (axis ? read.at(axis, i) : null);
  const rows = Array.from({ length: read.count }, (_, i) => i).filter((i) => kept.every((k) => String(read.at(k.axis, i)) === String(k.label)));
  const value = (of) => (i) => { const v = of.value(i); return typeof v === "number" && Number.isFinite(v) ? v : null; };
  const both = [x, y].map((of) => ({ ...of, value: value(of) }));
  const points = rows.map((i) => ({ i, x: both[0].value(i), y: both[1].value(i), series: label(roles.series, i), facet: label(roles.facet, i), along: label(roles.along, i), repeat: repeats.map((r) => `${r} ${read.at(r, i)}`).join(", ") })).filter((p) => p.x !== null && p.y !== null);
  const seriesOf = (i) => (roles.series ? labelled(roles.series, label(roles.series, i)) : "");
  const notes = [...(found.values ? [found.values.replace(/\.$/, "")] : []), ...cellsWithoutRow(context, kept), ...both.flatMap((of) => withoutValue(found, rows, of, seriesOf))].map((note) => `${note}.`);
  const all = [...new Set(rows.map((i) => label(roles.series, i)))].sort(byLabel);
  const groups = new Map();
  for (const p of points) {
    const key = JSON.stringify([p.series, p.facet, p.along]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(p);
  }
  const mean = (list, of) => list.reduce((sum, p) => sum + of(p), 0) / list.length;
  const means = [...groups.values()].map((list) => ({ ...list[0], n: list.length, x: mean(list, (p) => p.x), y: mean(list, (p) => p.y) }));
  return { points, means: means.sort((a, b) => byLabel(a.along, b.along)), series: all, notes };
}

function panelsOf({ points, means, series }, roles, { link, rowsOf, titles, frontier: ways }) {
  const facets = [...new Set(points.map((p) => p.facet))].sort(byLabel);
  const empty = new Set(series.filter((s) => points.every((p) => p.series !== s)));
  const several = means.some((m) => m.n > 1);
  const panels = facets.map((facet) => {
    const own = means.filter((m) => m.facet === facet);
    const beaten = new Set(ways ? own.filter((m) => own.some((o) => beats(o, m, ways))) : []);
    const lines = ways ? [{ series: 0, plain: true, dash: "5 3", points: own.filter((m) => !beaten.has(m)).sort((a, b) => a.x - b.x || a.y - b.y).map((m) => [m.x, m.y]) }]
      : roles.along ? series.map((s, k) => ({ series: k, points: own.filter((m) => m.series === s).map((m) => [m.x, m.y]) })) : [];
    const marks = [...(several ? points.filter((p) => p.facet === facet).map((p) => ({ series: series.indexOf(p.series), x: p.x, y: p.y, small: true, opacity: 0.7, title: titles(p), href: link(p) })) : []),
      ...own.map((m) => ({ series: series.indexOf(m.series), x: m.x, y: m.y, hollow: beaten.has(m), text: ways && !beaten.has(m) && m.along !== null ? String(m.along) : null, title: titles(m), href: m.n === 1 ? link(m) : rowsOf(m) }))];
    return { name: facet === null ? "" : labelled(roles.facet, facet), lines, marks };
  });
  return { panels, names: series.map((s, k) => ({ series: k, text: s === null ? "" : `${labelled(roles.series, s)}${empty.has(s) ? " (no value)" : ""}` })), several };
}

// The address of the rows whose mean a mark is.
function rowsBehind({ study }, found, roles, kept) {
  return (mark) => {
    const labels = [["series", roles.series], ["facet", roles.facet], ["along", roles.along]].filter(([, axis]) => axis).map(([key, axis]) => [axis, mark[key]]);
    const all = [...labels, ...kept.map((k) => [k.axis, k.label])].map(([axis, label]) => [`eq.${axis}`, String(label ?? "")]);
    return address(["study", study, "data"], { table: found.name, ...Object.fromEntries(all) });
  };
}

// Whether one is as good in both columns and better in one. Marks at the same place do not beat each other.
function beats(a, b, [x, y]) {
  const gains = [(a.x - b.x) * (x === "higher" ? 1 : -1), (a.y - b.y) * (y === "higher" ? 1 : -1)];
  return gains.every((g) => g >= 0) && gains.some((g) => g > 0);
}

async function trade(context) {
  const { parameters, again, study } = context;
  const found = await cellsTable(context);
  const roles = rolesOfAxes(found.axes, parameters);
  const { kept, controls } = keptLabels(found.axes, roles, parameters, again);
  const numeric = found.read.columns.filter((c) => !found.axes.some((a) => a.axis === c.name) && c.values.some((v) => typeof v === "number"));
  const pick = (asked, usual) => numeric.find((c) => c.name === asked) ?? usual.map((u) => numeric.find((c) => c.name === u)).find(Boolean) ?? numeric[0];
  if (!numeric.length) throw nothingOf(context, found);
  const x = pick(parameters.x, ["ttft_ms_p50", "ttft_ms_mean", "e2e_latency_ms_p50"]);
  const y = pick(parameters.y, ["output_throughput", "total_throughput", "request_throughput"]);
  const logs = (parameters.log ?? "").split(",");
  const of = (column) => ({ name: column.name, words: columnWords(column.name), value: (i) => column.values[i] });
  const drawn = pointsOf(context, found, roles, kept, of(x), of(y));
  const { points } = drawn;
  const titles = (p) => `${[p.series !== null ? labelled(roles.series, p.series) : "", p.facet !== null ? labelled(roles.facet, p.facet) : "", p.along !== null ? `${roles.along} ${p.along}` : "", p.n > 1 ? `mean of ${p.n}` : p.repeat].filter(Boolean).join(", ")}: ${withUnit(p.x, x.unit)}, ${withUnit(p.y, y.unit)}`;
  const link = (p) => address(["study", study, "data"], { table: found.name, cell: "", from: Math.max(0, found.read.rows[p.i] - 5), mark: found.read.rows[p.i] });
  const { panels, names, several } = panelsOf(drawn, roles, { link, rowsOf: rowsBehind(context, found, roles, kept), titles });
  const options = numeric.map((c) => [c.name, unitText(c)]);
  const flip = (axis) => again({ log: [...new Set(logs.includes(axis) ? logs.filter((l) => l !== axis) : [...logs, axis])].filter(Boolean).join(",") || null });
  const check = (axis, text) => h("label", { class: "inline" }, h("input", { type: "checkbox", checked: logs.includes(axis), onchange: () => flip(axis), "data-control": `log-${axis}` }), text);
  put(context, {
    title: `${y.name} against ${x.name}`, columns: [...found.axes.map((a) => a.axis), unitText(x), unitText(y)],
    rows: () => points.map((p) => [...found.axes.map((a) => found.read.at(a.axis, p.i)), p.x, p.y]),
    controls: [found.tables.length > 1 ? select("Table", found.tables, found.name, (name_) => again({ table: name_, x: null, y: null })) : null, select("Across", options, x.name, (name_) => again({ x: name_ })), select("Up", options, y.name, (name_) => again({ y: name_ })), ...axisControls(found.axes, roles, again), ...controls, check("x", "log across"), check("y", "log up")],
    across: found.axes.length, picture: (width, span) => plotOf(panels, { x: { label: `${unitText(x)}${logs.includes("x") ? ", log" : ""}${better(x.name)}`, log: logs.includes("x"), zero: true, span }, y: { label: `${unitText(y)}${logs.includes("y") ? ", log" : ""}${better(y.name)}`, log: logs.includes("y") }, names, width, label: `${unitText(y)} against ${unitText(x)}, ${plural(points.length, "cell")}; the same as a table follows` }),
    notes: [`${several ? `Small: ${plural(points.length, "measured cell")}; large: the mean over repetitions` : `Each mark is a cell (${points.length})`}${roles.along ? `; a line runs along ${roles.along}` : ""}. A mark opens ${several ? "its rows" : "its row"}.`, ...withoutLogarithm(points, [["x", x, (p) => p.x], ["y", y, (p) => p.y]].filter(([way]) => logs.includes(way)).map(([, column, of_]) => [column, of_])), ...drawn.notes, ...kept.map((k) => `Only ${k.axis} ${k.label}.`)],
    figure: figureText({ kind: "scatter", name: `${y.name}_over_${x.name}`, table: found.name, x: x.name, y: y.name, series: roles.series, facet: roles.facet, logX: logs.includes("x"), logY: logs.includes("y"), kept, title: `${words(y)} against ${words(x)}`, caption: "Each mark is a measured cell." }),
  });
}

const words = (column) => { const text = columnWords(column.name); return text[0].toUpperCase() + text.slice(1); };

async function frontier(context) {
  const { parameters, again, study } = context;
  const found = await cellsTable(context);
  const roles = { ...rolesOfAxes(found.axes, parameters) };
  const { kept, controls } = keptLabels(found.axes, roles, parameters, again);
  const speed = ["decode_rate_p50", "decode_rate_mean"].map((n) => found.read.column(n)).find((c) => c?.values.some((v) => v !== null));
  const output = found.read.column("output_throughput");
  if (!found.read.rows_in_all) throw nothingOf(context, found);
  if (!speed || !output) throw Object.assign(new Error("the table of cells has no decode rate or no output throughput"), { hint: "Rows of requests without single tokens have none." });
  const gpus = Number(parameters.gpus) > 0 ? Number(parameters.gpus) : null;
  const price = Number(parameters.price) > 0 ? Number(parameters.price) : null;
  const cost = price !== null && gpus !== null;
  const value = cost ? (i) => (output.values[i] > 0 ? (price * gpus * 1e6) / (output.values[i] * 3600) : null) : (i) => (output.values[i] === null ? null : output.values[i] / (gpus ?? 1));
  const yLabel = cost ? "$ per million output tokens" : gpus ? "output tok/s per GPU" : "output tok/s of the whole server";
  const drawn = pointsOf(context, found, roles, kept, { name: speed.name, words: columnWords(speed.name), value: (i) => speed.values[i] }, { name: output.name, words: columnWords(output.name), value });
  const { points } = drawn;
  const titles = (p) => `${[p.series, p.facet, p.along !== null ? `${roles.along} ${p.along}` : null].filter((t) => t !== null).join(", ")}: ${digits(p.x)} tok/s per user, ${digits(p.y)} ${yLabel}`;
  const link = (p) => address(["study", study, "data"], { table: found.name, cell: "", from: Math.max(0, found.read.rows[p.i] - 5), mark: found.read.rows[p.i] });
  const ways = ["higher", cost ? "lower" : "higher"];
  const { panels, names, several } = panelsOf(drawn, roles, { link, rowsOf: rowsBehind(context, found, roles, kept), titles, frontier: ways });
  const number = (key, text, step) => h("label", {}, text, h("input", { type: "number", min: "0", step, size: "8", value: parameters[key] ?? "", "data-control": key, onchange: (e) => again({ [key]: e.target.value || null }) }));
  put(context, {
    title: cost ? "Cost against speed for a user" : "Output per GPU against speed for a user", columns: [...found.axes.map((a) => a.axis), "tok/s per user", yLabel],
    rows: () => points.map((p) => [...found.axes.map((a) => found.read.at(a.axis, p.i)), p.x, p.y]),
    controls: [number("gpus", "All deployed GPUs", "1"), number("price", "Price, $ per GPU and hour", "0.01"), ...axisControls(found.axes, roles, again), ...controls],
    across: found.axes.length, picture: (width, span) => plotOf(panels, { x: { label: `tok/s per user (${speed.name.replaceAll("_", " ")}); more is better`, zero: true, span }, y: { label: `${yLabel}; ${cost ? "less" : "more"} is better` }, names, width, label: `${yLabel} against tok/s per user; the same as a table follows` }),
    notes: [`Dashed line: configurations that no other one beats in both${roles.along ? `, with their ${roles.along}` : ""}. Hollow: the others. ${several ? "Small: the measured cells, whose means these are. " : ""}Nothing was measured between marks.`, ...drawn.notes,
      gpus ? `${gpus} GPUs and ${price === null ? "no price" : `$ ${price} per GPU and hour`} as typed here; no table declares them.` : "Type how many GPUs are deployed for output per GPU; the number of GPUs is never guessed.",
      "A user's speed is the decode rate of a request, from its first to its last token."],
    figure: figureText({ kind: "scatter", name: "frontier", table: found.name, x: speed.name, y: "output_throughput", series: roles.series, facet: roles.facet, kept, frontier: ["higher", "higher"], derived: gpus ? { analyze: found.name.split(".")[0], from: found.name.split(".")[1], axes: found.axes.map((a) => a.axis), speed: speed.name, gpus, price } : null, title: cost ? "Cost against speed for a user" : "Output against speed for a user", caption: gpus ? "GPUs and price as the query of the table declares them." : "Output of the whole server." }),
  });
}

async function latency(context) {
  const { parameters, again, study, stage } = context;
  const axes = axesOf(context);
  const metric = LATENCIES.some(([m]) => m === parameters.metric) ? parameters.metric : "ttft_ms";
  const all = rolesOfAxes(axes, parameters);
  const roles = { ...all, along: null };
  const { kept, controls } = keptLabels(axes, roles, parameters, again);
  const by = [...new Set([roles.series, roles.facet].filter(Boolean))];
  const question = { stage: stage.name, metric, ...(by.length && { by: by.join(",") }), ...Object.fromEntries(kept.map((k) => [`only.${k.axis}`, String(k.label)])) };
  const found = await get(["studies", study, "distribution"], question);
  const log = parameters.log !== "none";
  const tail = parameters.up === "tail";
  const at = (group, axis) => (axis ? group.labels[by.indexOf(axis)] : null);
  const series = [...new Set(found.groups.map((g) => at(g, roles.series)))].sort(byLabel);
  const facets = [...new Set(found.groups.map((g) => at(g, roles.facet)))].sort(byLabel);
  const up = (rank, n) => (tail ? -Math.log10(1 - (rank - 0.5) / n) : rank / n);
  const panels = facets.map((facet) => ({ name: facet === null ? "" : labelled(roles.facet, facet), lines: found.groups.filter((g) => at(g, roles.facet) === facet).map((g) => ({ series: series.indexOf(at(g, roles.series)), step: true, points: g.points.map(([value, rank]) => [value, up(rank, g.n)]) })) }));
  const n = found.groups.map((g) => g.n);
  const least = Math.min(...n);
  const rate = metric.endsWith("_rate");
  const unit = found.unit && found.unit !== "1" ? ` (${found.unit})` : "";
  const label = LATENCIES.find(([m]) => m === metric)[1];
  const failed = found.groups.reduce((sum, g) => sum + g.requests - g.ok, 0);
  put(context, {
    empty: Math.max(0, ...n) === 0,
    title: `Distribution of ${metric}`, columns: [...by, "n", `${metric}${unit}`, "share at most"], rows: () => found.groups.flatMap((g) => g.points.map(([value, rank]) => [...g.labels, g.n, value, rank / g.n])),
    controls: [select("Of", LATENCIES, metric, (value) => again({ metric: value })), ...axisControls(axes, roles, again), ...controls, select("Up", [["share", "share of requests"], ["tail", "tail, −log10(1 − share)"]], tail ? "tail" : "share", (value) => again({ up: value === "tail" ? value : null })), select("Across", [["log", "logarithmic"], ["none", "linear"]], log ? "log" : "none", (value) => again({ log: value === "none" ? value : null }))],
    across: by.length + 1, picture: (width, span) => plotOf(panels, { x: { label: `${label}${unit}${log ? ", log" : ""}; ${rate ? "more" : "less"} is better`, log, span }, y: { label: tail ? "−log10(1 − share)" : "share of requests" }, names: series.map((s, k) => ({ series: k, text: s === null ? "" : labelled(roles.series, s) })), width, label: `Distribution of ${label} over requests, ${found.groups.length} curves; the same as a table follows` }),
    notes: [`${found.definition}. Requests of all repetitions together; ${plural(Math.max(0, least), "request")} in the smallest curve, ${Math.max(...n).toLocaleString("en-US")} in the largest.`, ...[...leftOut(found.groups), ...(found.notes ?? [])].map((t) => `${t}.`), least > 0 && least < 1000 ? "A p99 needs about 1,000 requests: read the top of a curve with fewer requests with care." : null, failed ? `${plural(failed, "request")} failed and ${failed === 1 ? "has" : "have"} no place in a curve.` : null, ...kept.map((k) => `Only ${k.axis} ${k.label}.`)].filter(Boolean),
    figure: figureText({ kind: "ecdf", name: `${metric}_distribution`, requests: stage.name, x: metric, series: roles.series, facet: roles.facet, kept, logX: log, title: `Distribution of ${metric.replaceAll("_", " ")}`, caption: "The requests of the repetitions together." }),
  });
}

export const NOTHING = "No request of an ok cell that enters the statistics was answered here, so there is nothing to draw. The view Cells shows the state of each cell.";

// What enters no curve, in words.
export function leftOut(groups) {
  const sum = (name) => groups.reduce((all, g) => all + (g[name] ?? 0), 0);
  const [cells, bad, excluded] = ["cells", "cells_not_ok", "cells_excluded"].map(sum);
  const parts = [bad ? `${bad.toLocaleString("en-US")} that ${bad === 1 ? "is" : "are"} not ok` : "", excluded ? `${excluded.toLocaleString("en-US")} that a gate excluded` : ""].filter(Boolean);
  return parts.length ? [`Of ${plural(cells, "cell")}, ${bad + excluded === cells ? "all are left out: " : "without "}${parts.join(" and ")}`] : [];
}

// The counts of requests within bounds, and the bound that the address has on each metric. The server counts a bound between
// two steps exactly; a file has only its steps, and takes the next stricter one.
async function objectiveOf(study, stage, parameters) {
  const notes = [];
  const first = await get(["studies", study, "objective"], { stage: stage.name });
  const asked = first.metrics.map((m) => {
    const text = parameters[`bound.${m.name}`];
    if (text === undefined) return null;
    const bound = text.trim() === "" ? NaN : Number(text);
    if (!Number.isFinite(bound)) { notes.push(`“${text}” is not a number, so ${columnWords(m.name)} has no bound.`); return null; }
    if (!m.steps.length) notes.push(`No request has a value of ${columnWords(m.name)}, so its bound of ${bound} ${m.unit} is not applied.`);
    return bound;
  });
  const between = first.metrics.map((m, i) => [m, asked[i]]).filter(([m, bound]) => bound !== null && m.steps.length && bound < m.steps.at(-1) && !m.steps.includes(bound));
  if (!between.length) return { found: first, asked, notes };
  if (isFile()) {
    for (const [m, bound] of between) {
      const step = m.steps.findLast((s) => s < bound);
      notes.push(step === undefined ? `This file counts ${columnWords(m.name)} from at most ${m.steps[0]} ${m.unit} on: below that, it counts no request.`
        : `This file counts ${columnWords(m.name)} at certain bounds only: the counts are those of at most ${step} ${m.unit}, the next stricter one.`);
    }
    return { found: first, asked, notes };
  }
  const exact = Object.fromEntries(between.map(([m, bound]) => [`bound.${m.name}`, bound]));
  return { found: await get(["studies", study, "objective"], { stage: stage.name, ...exact }), asked, notes };
}

// Goodput from the rows: the server sends once how many requests of each cell lie in each bin of latencies, and the
// page adds up the bins below the bounds.
async function goodput(context) {
  const { parameters, again, study, stage } = context;
  const { found, asked, notes: unusual } = await objectiveOf(study, stage, parameters);
  const axes = axesOf(context);
  const roles = rolesOfAxes(axes, parameters);
  const { kept, controls } = keptLabels(axes, roles, parameters, again);
  const share = parameters.of === "share";
  // A bound is the position of the last step at or below it: −1 below all steps, and null without a bound.
  const bounds = found.metrics.map((m, i) => (asked[i] === null || !m.steps.length ? null : m.steps.findLastIndex((step) => step <= asked[i])));
  const typed = [...asked];
  const place = (axis) => found.axes.indexOf(axis);
  const measured = found.cells.filter((c) => c.bins && kept.every((k) => String(c.labels[place(k.axis)]) === String(k.label)));
  const met = (cell) => cell.bins.reduce((sum, bin) => sum + (bounds.every((b, i) => b === null || bin[i] <= b) ? bin.at(-1) : 0), 0);
  const current = () => measured.map((cell) => { const n = met(cell); return { cell, n, share: cell.requests ? n / cell.requests : null, rate: cell.window_s ? n / cell.window_s : null }; });
  const label = (cell, axis) => (axis ? cell.labels[place(axis)] : null);
  const series = [...new Set(measured.map((c) => label(c, roles.series)))].sort(byLabel);
  const facets = [...new Set(measured.map((c) => label(c, roles.facet)))].sort(byLabel);
  const along = roles.along ?? axes[0]?.axis;
  const ladder = axes.find((a) => a.axis === along)?.labels ?? [null];
  const picture = (width, span) => {
    const rows = current();
    const of = (r) => (share ? r.share : r.rate);
    const panels = facets.map((facet) => {
      const own = rows.filter((r) => label(r.cell, roles.facet) === facet && of(r) !== null);
      const at = (r) => (roles.along ? Number(label(r.cell, along)) : ladder.indexOf(label(r.cell, along)) + 1);
      const lines = series.map((s, k) => ({ series: k, points: ladder.map((step) => { const list = own.filter((r) => label(r.cell, roles.series) === s && label(r.cell, along) === step); return list.length ? [at(list[0]), list.reduce((sum, r) => sum + of(r), 0) / list.length] : null; }).filter(Boolean) }));
      const marks = own.map((r) => ({ series: series.indexOf(label(r.cell, roles.series)), x: at(r), y: of(r), small: true, title: `${r.cell.at}: ${r.n} of ${r.cell.requests} requests, ${digits(r.rate)} req/s`, href: cellLink(study, stage.name, r.cell.at) }));
      return { name: facet === null ? "" : labelled(roles.facet, facet), lines, marks };
    });
    const positive = roles.along && ladder.every((l) => Number(l) > 0);
    return plotOf(panels, { x: { label: `${along ?? "cell"}${positive ? ", log" : ""}`, log: positive, steps: positive ? ladder.map(Number) : null, names: roles.along ? null : ladder.map((l) => String(l ?? "")), span: roles.along ? span : null }, y: { label: share ? "share of requests that meet every bound" : "goodput (req/s)" }, names: series.map((s, k) => ({ series: k, text: s === null ? "" : labelled(roles.series, s) })), width, label: "Goodput of each cell under the bounds; the same as a table follows" });
  };
  const said = (i) => (bounds[i] === null ? "no bound" : `at most ${typed[i]} ${found.metrics[i].unit}`);
  const total = h("p", { role: "status" });
  const tell = () => { const rows = current(); const [n, all] = [rows.reduce((s, r) => s + r.n, 0), rows.reduce((s, r) => s + r.cell.requests, 0)]; total.textContent = `${n.toLocaleString("en-US")} of ${plural(all, "request")} meet every bound.`; };
  let draw = () => {};
  const sliders = found.metrics.map((m, i) => {
    const words = columnWords(m.name);
    const text = h("span", {}, said(i));
    const key = `bound.${m.name}`;
    const field = h("input", { type: "number", min: "0", step: "any", size: "8", value: asked[i] === null ? "" : String(asked[i]), "data-control": key, "aria-label": `${words} at most (${m.unit})`, disabled: m.steps.length === 0, onchange: (event) => again({ [key]: event.target.value || null }) });
    const move = (event) => {
      const step = m.steps[Number(event.target.value)];
      [bounds[i], typed[i]] = step === undefined ? [null, null] : [Number(event.target.value), step];
      text.textContent = said(i);
      field.value = typed[i] ?? "";
      event.target.setAttribute("aria-valuetext", said(i));
      requestAnimationFrame(() => { draw(); tell(); });
    };
    const slider = h("input", { type: "range", min: "0", max: String(m.steps.length), step: "1", value: String(bounds[i] === null ? m.steps.length : Math.max(0, bounds[i])), "data-control": m.name, "aria-label": `bound on ${m.name}`, "aria-valuetext": said(i), disabled: m.steps.length === 0,
      oninput: move, onchange: () => again({ [key]: typed[i] }) });
    return h("div", { class: "bound" }, h("label", { class: "slider" }, h("span", {}, `${words}: `, text), slider), field);
  });
  const chosen = found.metrics.map((m, i) => [m.name, typed[i]]).filter(([, bound]) => bound !== null);
  const counted = found.cells.filter((c) => kept.every((k) => String(c.labels[place(k.axis)]) === String(k.label)));
  const out = leftOut(counted.map((c) => ({ cells: 1, cells_excluded: c.excluded ? 1 : 0, cells_not_ok: c.bins || c.excluded ? 0 : 1 })));
  draw = put(context, {
    empty: !measured.length,
    title: "Goodput under bounds", columns: [...found.axes, "requests", "ok", "meet every bound", "share", "goodput (req/s)"], rows: () => current().map((r) => [...r.cell.labels, r.cell.requests, r.cell.ok, r.n, r.share, r.rate]),
    across: roles.along ? found.axes.indexOf(roles.along) : undefined, controls: [...sliders, select("Up", [["rate", "goodput (req/s)"], ["share", "share of requests"]], share ? "share" : "rate", (value) => again({ of: value === "share" ? value : null })), ...axisControls(axes, roles, again), ...controls], picture,
    notes: [...unusual, ...out.map((t) => `${t}.`), "Counted from the rows. A failed request meets no bound, and neither does a request for which a bounded metric is undefined. Goodput is the number of requests that meet every bound ÷ the time from the first request sent to the last one done.", ...(found.notes ?? []).map((n) => `${n}.`), ...kept.map((k) => `Only ${k.axis} ${k.label}.`)],
    figure: chosen.length ? figureText({ kind: "goodput", name: "goodput", load: stage.name, x: along, y: share ? "slo_pass_rate" : "goodput", series: roles.series, facet: roles.facet, kept, bounds: chosen, repeats: axes.filter((a) => a.repeats).map((a) => a.axis), title: "Goodput under the bounds", caption: "The bounds are those of the table of objectives; mean over repetitions." }) : null,
  });
  tell();
  if (measured.length) context.shown.insertBefore(total, context.shown.children[2] ?? null);
}

async function time(context) {
  const { parameters, again, study, stage } = context;
  const ran = stage.cells.filter((c) => c.record);
  const cell = ran.find((c) => c.at === parameters.cell) ?? ran.at(-1);
  if (!cell) throw new Error("no cell of this stage ran");
  const found = await get(["studies", study, "activity"], { stage: stage.name, cell: cell.at });
  const seconds = found.at_ns.map((t) => (t - found.whole[0]) / 1e9);
  const lines = [["waiting for the first token", found.waiting], ["tokens arriving", found.running], ...(found.due.some((n) => n) ? [["due, not yet sent", found.due]] : [])];
  put(context, {
    title: `Requests of ${cellText(stage.name, cell.at)} over time`, columns: ["s", ...lines.map(([text]) => text)], rows: () => seconds.map((s, i) => [s, ...lines.map(([, values]) => values[i])]),
    controls: [select("Cell", ran.map((c) => [c.at, c.at || stage.name]), cell.at, (at) => again({ cell: at }))],
    across: 0, picture: (width, span) => plotOf([{ lines: lines.map(([, values], k) => ({ series: k, step: true, points: seconds.map((s, i) => [s, values[i]]) })) }], { x: { label: "s since the first request was due", zero: true, span }, y: { label: "requests", whole: true }, names: lines.map(([text], series) => ({ series, text })), width, label: `Requests running and waiting over time in ${cellText(stage.name, cell.at)}; the same as a table follows` }),
    notes: [`${plural(found.requests_in_all, "request")}; levels at ${seconds.length} moments, as the client saw them.`, cell.excluded ? `This cell enters no statistic: ${cell.excluded}.` : ""].filter(Boolean),
    told: null,
  });
  context.shown.append(h("p", {}, h("a", { href: cellLink(study, stage.name, cell.at) }, "The cell, with telemetry of the machine")));
}
