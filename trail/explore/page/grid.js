// A stage as a grid of its cells. Each axis is rows, columns, facets or a single label; colour is a column of any
// table; hatching is a state other than ok. Below are the same cells in the order of their execution.

import { address, cellLink, cellText, h, here, ink, plainText, replace, reshow, select, sentence, whyLink } from "./dom.js";
import { get, table } from "./api.js";
import { kind, scaleOf } from "./colour.js";
import { betterOf, byLabel, columnWords, digits, moment, plural, readsStage, seconds, ticks, unitOrNull, valuesOf, withUnit } from "./format.js";

const BESIDE = [["load", "load per core before the run"], ["cpu_steal", "CPU steal"], ["client_busy", "client busy"], ["run_queue_wait", "client waiting for a core"], ["wake_lag_p99", "client wake lag p99 (ms)"]];
const OWN = [["state", "state"], ["seconds", "time taken (s)"], ["order", "order of execution"], ["warnings", "warnings"], ["earlier", "earlier results"]];

let watch = null;

export async function gridView(main, study) {
  const { parameters } = here();
  const [overview, cells] = await Promise.all([get(["studies", study]), get(["studies", study, "cells"])]);
  const { stages } = cells;
  if (!stages.some((s) => s.cells.length)) throw Object.assign(new Error("the study has no cells yet"), { hint: "`benchtrail run` with its experiment measures them." });
  const stage = stages.find((s) => s.name === parameters.stage) ?? stages.find((s) => s.class === "measurement") ?? stages[0];
  const labels = stage.axes.map((_, i) => [...new Set(stage.cells.map((c) => c.labels[i]))].sort(byLabel));
  const roles = rolesOf(stage.axes, labels, parameters);
  const every = overview.tables.filter((t) => !t.lineage && !["requests", "chunks", "prompts"].includes(t.output) && !t.output.endsWith("_telemetry"));
  // Another load stage may have the same axes: its values are not those of the shown cells.
  const tables = every.filter((t) => t.name === parameters.colour || stage.class !== "measurement" || !t.reads?.length || readsStage(t, stage.name));
  const source = parameters.colour ?? usualTable(tables, stage) ?? "state";
  const colour = await colourOf(study, stage, source, parameters, every.find((t) => t.name === source));
  const states = new Map();
  for (const cell of stage.cells) states.set(stateOf(cell), (states.get(stateOf(cell)) ?? 0) + 1);
  const compared = await comparisonsOf(study, overview, stages);
  const single = stage.axes.flatMap((axis, i) => (labels[i].length === 1 ? [`${axis} ${labels[i][0]}`] : []));
  const executed = await strip(study, stage, labels, overview.replicates ?? [], parameters);
  const chooser = stage.axes.map((axis, i) => labels[i].length > 1 && select(axis, [["rows", "rows"], ["columns", "columns"], ["facet", "facets"], ...labels[i].map((l) => [only(l), `only ${l}`])], roles[i], (value) => reshow({ [`axis.${axis}`]: value })));
  replace(main,
    h("h1", {}, overview.profile ? `${overview.experiment} (${overview.profile})` : overview.experiment),
    answersOf(study, overview.about ?? {}), failedGates(study, overview.failed_on_stages ?? []), compared,
    h("p", { class: "soft" }, [...states].map(([state, n]) => `${n.toLocaleString("en-US")} ${state}`).join(", "), ` in stage ${stage.name}${single.length ? ` (all with ${single.join(", ")})` : ""}; trail `, h("span", { class: "digest" }, overview.trail.slice(0, 15)),
      overview.measured_again ? `; ${plural(overview.measured_again, "cell")} measured more than once` : ""),
    h("div", { class: "row" }, select("Stage", stages.map((s) => s.name), stage.name, (value) => reshow({ stage: value, colour: null, column: null })), chooser),
    h("div", { class: "row" }, select("Colour", [...OWN, ...tables.map((t) => [t.name, `table ${t.name}`])], source, (value) => reshow({ colour: value, column: null })),
      colour.columns.length ? select("Column", colour.columns.map((c) => [c.name, unitOrNull(c.unit) ? `${c.name} [${c.unit}]` : c.name]), colour.column, (value) => reshow({ column: value })) : null,
      colour.keys.map((k) => select(k.name, k.values, k.value, (value) => reshow({ [`key.${k.name}`]: value })))),
    unreadRecords(stages),
    legend(colour, stage, states),
    gridOf(study, stage, labels, roles, colour),
    executed);
  if (!main.isConnected) return;
  fit(main);
  // Boxes are as wide as the window allows, so their width changes with the window.
  const drawn = main.clientWidth;
  watch?.disconnect();
  watch = new ResizeObserver(() => { if (main.isConnected && Math.abs(main.clientWidth - drawn) > 60) reshow({}); });
  watch.observe(main);
}

// A cell that a gate excludes from the statistics is ok, but looks different.
const stateOf = (cell) => (cell.status === "ok" && cell.excluded ? "excluded" : cell.status);

// The question of the study, and what its claims permit to say: the answer comes before the cells.
function answersOf(study, { question, answers = [] }) {
  const outcome = (verdict) => h("span", { class: { licensed: "ok", refused: "bad", undecided: "warn" }[verdict] ?? null }, verdict);
  const report = h("a", { href: address(["study", study, "report"]) }, "report");
  return [question ? h("p", {}, question) : null,
    answers.length ? h("ul", { class: "answers" }, answers.slice(0, 12).map((a) => h("li", { title: a.reason }, a.may_say ?? `${a.verdict === "refused" ? "The data do not support" : "The data do not decide"}: “${a.says ?? a.claim}”`, " ", h("span", { class: "soft" }, "(claim ", a.claim, ": ", outcome(a.verdict), a.may_say && a.verdict !== "licensed" ? " as declared; this narrower form holds" : "", ")")))) : null,
    answers.length ? h("p", { class: "soft" }, "The ", report, " has the numbers and the reasons of these verdicts.") : null];
}

// The most failed gates of stages that are shown.
const GATES = 4;

// Gates that failed on a stage as a whole, such as a census that lacks cells: no cell shows them.
function failedGates(study, all) {
  const short = (text) => (text.length > 240 ? `${text.slice(0, 239)}…` : text);
  const line = (g) => h("p", { class: g.severity === "fail" ? "note" : "soft" }, h("b", { class: g.severity === "fail" ? "bad" : "warn" }, g.severity === "fail" ? "Failed: " : "Warning: "), `gate ${g.gate} on stage ${g.stage} as a whole. `, h("span", { title: g.observed }, short(`${g.observed}${g.expected ? `; expected ${g.expected}` : ""}`)), " (",
    h("a", { href: address(["study", study, "data"], { table: `${g.verify}.gates`, cell: g.at, from: Math.max(0, g.row - 5), mark: g.row }) }, "its row"), ")");
  const rest = all.length - GATES;
  return [all.slice(0, GATES).map(line), rest > 0 ? h("p", { class: "soft" }, `and ${plural(rest, "more gate")} that failed on stages; the tables of gates list them.`) : null];
}

// The most comparisons of the study that are shown, and the most rows of one.
const [COMPARISONS, ROWS] = [3, 6];

// The comparisons of the study in sentences: which side is better, by how much, and whether it is more than noise.
async function comparisonsOf(study, overview, stages) {
  const small = overview.tables.filter((t) => /^(un)?paired-comparison$/.test(t.operator ?? "") && t.cells === 1 && t.rows_of_first > 0 && t.rows_of_first <= ROWS).sort((a, b) => a.rows_of_first - b.rows_of_first).slice(0, COMPARISONS);
  const read = await Promise.all(small.map((t) => table(study, t.name, { from: 0, to: ROWS }).catch(() => null)));
  const axes = new Set(stages.flatMap((s) => s.axes));
  const lines = read.flatMap((found, k) => (found ? Array.from({ length: found.count }, (_, i) => {
    const at = (column) => found.at(column, i);
    const [a, b, verdict, better] = [at("a"), at("b"), at("verdict"), betterOf(at("metric") ?? "")];
    const keys = found.columns.filter((c) => axes.has(c.name)).map((c) => `${c.name} ${c.values[i]}`);
    const higher = verdict === "different" ? at("higher") : null;
    const ratio = at("scale") !== "difference";
    // An end beside one shows on which side of it.
    const bound = (v) => (ratio ? `${digits(v, v !== 1 && digits(v, 3) === "1" ? 6 : 3)}×` : `${v > 0 ? "+" : ""}${digits(v, 3).replace("-", "−")}${unitOrNull(at("unit")) ? ` ${at("unit")}` : ""}`);
    const link = h("a", { class: "value", href: whyLink({ table: small[k].name, cell: "", row: found.rows[i], column: "effect" }) }, at("effect") === null ? "–" : bound(at("effect")));
    return h("li", {}, h("b", {}, columnWords(at("metric") ?? "")), keys.length ? `, ${keys.join(", ")}` : "", `: ${a} ${ratio ? "÷" : "−"} ${b} is `, link,
      at("adjusted_low") === null ? "" : `, interval ${bound(at("adjusted_low"))} to ${bound(at("adjusted_high"))}`, ": ", h("span", { class: { different: "ok", equivalent: "ok", undecidable: "warn" }[verdict] ?? null, title: at("verdict_reason") }, verdict), higher === null ? "" : !better ? `, higher on ${higher}` : `, better on ${better === "more" ? higher : higher === a ? b : a}`);
  }) : []));
  const reasons = new Set(read.flatMap((found) => (found ? Array.from({ length: found.count }, (_, i) => [found.at("verdict", i), found.at("verdict_reason", i)]) : [])).filter(([verdict, reason]) => verdict === "undecidable" && reason).map(([verdict, reason]) => `${verdict}: ${reason}`));
  return lines.length ? h("details", { open: !(overview.about?.answers ?? []).length }, h("summary", {}, plural(lines.length, "comparison")), h("ul", { class: "answers" }, lines), [...reasons].slice(0, 3).map((reason) => h("p", { class: "soft" }, `${reason}.`))) : null;
}

// Cells whose records are damaged: the lock still has their labels and states.
function unreadRecords(stages) {
  const unread = stages.flatMap((s) => s.cells).filter((c) => c.unread);
  return unread.length ? h("p", { class: "note" }, `The ${unread.length === 1 ? "record of a cell" : `records of ${unread.length.toLocaleString("en-US")} cells`} cannot be read: ${unread[0].unread}. \`benchtrail fsck\` lists what is damaged, and a run of the experiment executes those cells again.`) : null;
}

// The table of results that is most likely to have a row for each cell.
function usualTable(tables, stage) {
  if (stage.class !== "measurement") return null;
  const reads = (t) => t.reads === null || t.reads === undefined || readsStage(t, stage.name);
  const own = tables.filter((t) => t.cells === 1 && reads(t));
  return (own.find((t) => t.output === "cells") ?? own.find((t) => t.operator === "cell-summary"))?.name ?? null;
}

// The role of an axis of which only one label is shown. It names the label, so that the address still means the same when
// the axis has more of them.
const only = (label) => `=${label}`;

function rolesOf(axes, labels, parameters) {
  let product = 1;
  const roles = axes.map(() => "rows");
  // An axis with a single label is shown once, above the grid.
  const several = axes.map((_, i) => i).filter((i) => labels[i].length > 1);
  for (const i of several.slice(several.length > 1 ? 1 : 0).reverse()) {
    product *= labels[i].length;
    if (product > 40) break;
    roles[i] = "columns";
  }
  return axes.map((axis, i) => {
    if (labels[i].length === 1) return only(labels[i][0]);
    const asked = parameters[`axis.${axis}`];
    return ["rows", "columns", "facet"].includes(asked) || labels[i].some((l) => only(l) === asked) ? asked : roles[i];
  });
}

// The most rows of a table of which the grid shows a column.
const GRID_ROWS = 50000;

// The value of each cell in the selected source and column.
async function colourOf(study, stage, source, parameters, entry) {
  const none = { columns: [], keys: [], column: null, unit: null, value: () => null, scale: null, notes: [] };
  if (source === "state") return none;
  if (OWN.some(([key]) => key === source)) {
    const value = (cell) => cell[source] ?? (source === "warnings" || source === "earlier" ? 0 : null);
    return { ...none, column: source, unit: source === "seconds" ? "s" : null, value, scale: scaleOf(stage.cells.map(value)) };
  }
  // A table of many cells has many columns, of which the grid shows one: its first row lists them.
  const unread = (error) => ({ ...none, notes: [`The table ${source} cannot be read, so the colour is the state of a cell. ${sentence(error)}.`] });
  let head;
  try { head = await table(study, source, { from: 0, to: 1 }); } catch (error) { return unread(error); }
  const shared = stage.axes.filter((axis) => head.has(head.axis(axis)));
  const axes = shared.map(head.axis);
  const declared = (head.metadata?.keys ?? "").split(",").filter((key) => head.has(key) && !axes.includes(key));
  const columns = head.columns.filter((c) => !axes.includes(c.name) && !declared.includes(c.name));
  const usual = ["output_throughput", "output_throughput_mean", "goodput", "effect", "outcome", "source"];
  const wanted = (columns.find((c) => c.name === parameters.column) ?? usual.map((u) => columns.find((c) => c.name === u)).find(Boolean) ?? columns[0])?.name;
  if (!wanted) return none;
  let found;
  try { found = await table(study, source, { columns: [...axes, ...declared, wanted].join(","), from: 0, to: GRID_ROWS }); } catch (error) { return unread(error); }
  const places = shared.map((axis) => stage.axes.indexOf(axis));
  const keyOf = (labels) => JSON.stringify(labels.map(String));
  const labelsOf = (cell) => keyOf(places.map((p) => cell.labels[p]));
  const cellOf = Array.from({ length: found.count }, (_, i) => keyOf(axes.map((axis) => found.at(axis, i))));
  const cells = new Set(stage.cells.map(labelsOf));
  const own = [...cellOf.keys()].filter((i) => cells.has(cellOf[i]));
  const { keys, rows } = rowsOfCells(found, own, (i) => cellOf[i], declared, stage.name, parameters);
  const rowsOf = (cell) => rows.get(labelsOf(cell)) ?? [];
  const column = found.column(wanted);
  // A cell has a value if it has a single row: one of several would be a choice that nobody made.
  const value = (cell) => { const own = rowsOf(cell); return own.length === 1 ? column.values[own[0]] : null; };
  const most = stage.cells.reduce((n, cell) => Math.max(n, rowsOf(cell).length), 0);
  const notes = [valuesOf(entry, stage),
    shared.length < stage.axes.length ? `Rows of ${source} have no ${stage.axes.filter((a) => !shared.includes(a)).join(", ")}; cells share a value.` : null,
    most > 1 ? `${source} has up to ${most.toLocaleString("en-US")} rows per cell, and nothing tells them apart: such cells have no colour.` : null,
    found.rows_in_all > found.count ? `The colours are those of the first ${found.count.toLocaleString("en-US")} of ${plural(found.rows_in_all, "row")}.` : null].filter(Boolean);
  return { columns, keys, column: column.name, unit: unitOrNull(column.unit), value, scale: scaleOf(stage.cells.map(value)), notes, title: column.description };
}

// The rows of each cell. A key of the table beyond the axes, such as an objective or a gate, tells the rows of a cell apart:
// the reader chooses one value of it.
function rowsOfCells(found, every, cellOf, declared, stage, parameters) {
  const group = (list) => {
    const rows = new Map();
    for (const i of list) {
      if (rows.has(cellOf(i))) rows.get(cellOf(i)).push(i);
      else rows.set(cellOf(i), [i]);
    }
    return rows;
  };
  let list = every;
  const text = (name, i) => String(found.at(name, i));
  // A table of gates has the rows of several stages.
  if (declared.includes("stage") && list.some((i) => text("stage", i) === stage)) list = list.filter((i) => text("stage", i) === stage);
  const keys = [];
  for (const name of declared.filter((key) => key !== "stage")) {
    const several = [...group(list).values()].filter((own) => new Set(own.map((i) => text(name, i))).size > 1);
    if (!several.length) continue;
    const values = [...new Set(several.flat().map((i) => text(name, i)))].sort(byLabel);
    const asked = parameters[`key.${name}`];
    const value = values.includes(asked) ? asked : values[0];
    keys.push({ name, values, value });
    list = list.filter((i) => text(name, i) === value);
  }
  return { keys, rows: group(list) };
}

function legend(colour, stage, states) {
  const chips = [];
  if (colour.scale?.kinds) chips.push(...colour.scale.kinds.slice(0, 12).map((k, i) => h("span", {}, h("span", { class: "chip", style: { background: kind(i).fill } }), k)));
  else if (colour.scale && colour.scale.low !== null) {
    const steps = Array.from({ length: 24 }, (_, i) => h("span", { style: { background: colour.scale.of(colour.scale.low + ((colour.scale.high - colour.scale.low) * i) / 23).fill, width: "6px", height: "12px", display: "inline-block" } }));
    chips.push(h("span", { title: colour.title }, `${colour.column}: ${digits(colour.scale.low)} `, h("span", { "aria-hidden": "true" }, steps), ` ${withUnit(colour.scale.high, colour.unit)}`));
  }
  for (const [state, n] of states) {
    if (state === "ok") continue;
    const reasons = [...new Set(stage.cells.filter((c) => stateOf(c) === state).map((c) => c.reason ?? c.excluded).filter(Boolean))];
    const others = reasons.length > 1 ? ` (and ${plural(reasons.length - 1, "other reason")})` : "";
    chips.push(h("span", { title: reasons.join("\n") }, h("span", { class: `chip hatch hatch-${state}` }), `${n.toLocaleString("en-US")} ${state}${reasons.length ? `: ${reasons[0]}${others}` : ""}`));
  }
  const valueless = colour.scale ? stage.cells.filter((c) => stateOf(c) === "ok" && colour.value(c) === null).length : 0;
  if (valueless) chips.push(h("span", {}, `·  ${plural(valueless, "cell")} without a value in this column`));
  return h("div", { class: "legend" }, chips, colour.notes.map((note) => h("span", {}, note)), h("span", { class: "screen" }, "Click a cell to open it."));
}

function gridOf(study, stage, labels, roles, colour) {
  const axesOf = (role) => stage.axes.map((_, i) => i).filter((i) => roles[i] === role);
  const [rowAxes, columnAxes, facetAxes] = ["rows", "columns", "facet"].map(axesOf);
  const shown = stage.cells.filter((cell) => stage.axes.every((_, i) => !roles[i].startsWith("=") || only(cell.labels[i]) === roles[i]));
  const product = (axes) => axes.reduce((all, i) => all.flatMap((head) => labels[i].map((label) => [...head, label])), [[]]);
  const keyOf = (cell, axes) => JSON.stringify(axes.map((i) => cell.labels[i]));
  const facets = product(facetAxes).map((f) => [f, shown.filter((c) => keyOf(c, facetAxes) === JSON.stringify(f))]).filter(([, list]) => list.length);
  return facets.map(([facet, list]) => {
    const found = new Map(list.map((cell) => [keyOf(cell, rowAxes) + keyOf(cell, columnAxes), cell]));
    const used = (axes) => { const keys = new Set(list.map((c) => keyOf(c, axes))); return product(axes).filter((p) => keys.has(JSON.stringify(p))); };
    const [rows, columns] = [used(rowAxes), used(columnAxes)];
    // Boxes take the available width, up to the point where a number in them is readable.
    // The text of a reader who asked for larger letters needs larger boxes.
    const room = (document.getElementById("main").clientWidth - 60 - 100 * Math.max(1, rowAxes.length) * enlarged()) / columns.length - 3;
    const width = Math.round(Math.min(Math.max(room, (columns.length <= 12 ? 56 : 30) * enlarged()), 64 * enlarged()));
    // Either every box has its number or none has.
    const legible = list.reduce((most, c) => Math.max(most, lettersOf(colour.value(c))), 0) * enlarged() <= width - 2;
    // Without rows, the names of the axes stand before their labels.
    const corner = (depth) => (!rowAxes.length ? h("td", { class: "side" }, h("span", { class: "across" }, `${stage.axes[columnAxes[depth]]} →`)) : rowAxes.map((r, i) => {
      const own = depth === columnAxes.length - 1 ? stage.axes[r] : "";
      // The name of an axis stands once beside its labels: repeated above each, it would be wider than the boxes.
      const across = i === rowAxes.length - 1 ? h("span", { class: "across" }, `${stage.axes[columnAxes[depth]]} →`) : null;
      return own ? h("th", { class: i ? null : "side" }, across ? h("span", { class: "corner" }, h("span", {}, own), across) : own) : h("td", { class: i ? null : "side" }, across);
    }));
    const head = columnAxes.map((axis, depth) => h("tr", {}, corner(depth),
      runs(columns, depth).map(([label, span]) => h("th", { scope: "colgroup", colspan: span, title: `${stage.axes[axis]} ${label}` }, h("span", { class: "name", style: { "max-width": `max(9ch, ${span} * ${rem(width)} - 16px)` } }, String(label))))));
    const starts = rowAxes.map((_, depth) => new Map(runsAt(rows, depth)));
    const body = rows.map((row, r) => h("tr", {}, rowAxes.length || !columnAxes.length ? null : h("td", {}), row.map((label, depth) => (starts[depth].has(r) ? h("th", { scope: "rowgroup", rowspan: starts[depth].get(r), class: depth ? null : "side" }, h("span", { class: "name" }, String(label))) : null)),
      columns.map((column) => cellBox(study, stage, found.get(JSON.stringify(row) + JSON.stringify(column)), colour, legible))));
    const name = facet.map((label, i) => `${stage.axes[facetAxes[i]]} ${label}`).join(", ");
    return h("section", {}, name ? h("h2", {}, name) : null, h("div", { class: rows.length > 30 ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": `Cells ${name}` }, h("table", { class: columns.length > 14 ? "cellmap dense" : "cellmap", style: { "--w": rem(width), "--columns": String(columns.length) } }, h("thead", {}, head), h("tbody", {}, body))));
  });
}

// Narrows the boxes if the grid is slightly wider than its window: a few pixels are not worth scrolling.
function fit(main) {
  for (const box of main.querySelectorAll(".scroll:has(> .cellmap)")) {
    const map = box.firstElementChild;
    const beyond = box.scrollWidth - box.clientWidth;
    const columns = Number(map.style.getPropertyValue("--columns"));
    const width = parseFloat(map.style.getPropertyValue("--w")) * 16 * enlarged() - Math.ceil(beyond / columns);
    if (beyond > 0 && width >= 44 * enlarged()) map.style.setProperty("--w", rem(width));
  }
}

// How much larger than usual a reader's letters are.
const enlarged = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

// A width that grows with the letters.
const rem = (width) => `${width / 16 / enlarged()}rem`;

// Runs of equal heads: [label, length].
function runs(list, depth) {
  const found = [];
  let last = null;
  for (const item of list) {
    const head = JSON.stringify(item.slice(0, depth + 1));
    if (head === last) found.at(-1)[1] += 1;
    else found.push([item[depth], 1]);
    last = head;
  }
  return found;
}

function runsAt(list, depth) {
  let at = 0;
  return runs(list, depth).map(([, span]) => { const start = at; at += span; return [start, span]; });
}

// The width of a number in a box: digits are wider than what separates them.
const lettersOf = (value) => (typeof value === "number" ? [...digits(value, 3)].reduce((sum, c) => sum + (/[,.]/.test(c) ? 3.7 : 7.3), 0) : 0);

function cellBox(study, stage, cell, colour, legible) {
  if (!cell) return h("td", {});
  const value = colour.value(cell);
  const name = cellText(stage.name, cell.at);
  const state = stateOf(cell);
  const words = [name, state + (cell.reason ?? cell.excluded ? `: ${cell.reason ?? cell.excluded}` : ""), colour.column ? `${colour.column} ${withUnit(value, colour.unit)}` : null].filter(Boolean).join("\n");
  const paint = colour.scale && value !== null ? colour.scale.of(value) : null;
  const hatch = state === "ok" ? null : `hatch hatch-${state}`;
  const shown = typeof value === "number" ? digits(value, 3) : "";
  const text = paint && shown && legible && !hatch ? shown : hatch ? "" : paint ? " " : "·";
  return h("td", {}, h("a", { href: cellLink(study, stage.name, cell.at), class: hatch, title: words, "aria-label": /\d/.test(text) ? `${text}; ${words}` : words,
    style: hatch ? {} : { background: paint?.fill ?? "var(--raised)", color: paint?.text ?? "var(--text)" } }, text));
}

// The strip of execution order: a bar from start to end of each cell, coloured by the labels of an axis, above a figure
// of the machine.
async function strip(study, stage, labels, repeats, parameters) {
  const executed = stage.cells.filter((c) => c.started && c.seconds !== undefined).map((c) => ({ cell: c, from: Date.parse(c.started) / 1000 }));
  if (executed.length < 2) return null;
  executed.sort((a, b) => a.from - b.from || (a.cell.order ?? 0) - (b.cell.order ?? 0));
  const choices = stage.axes.filter((_, i) => labels[i].length > 1);
  const axis = stage.axes.includes(parameters.strip) ? parameters.strip : choices.find((a) => a !== "block" && !repeats.includes(a)) ?? stage.axes[0];
  const at = stage.axes.indexOf(axis);
  const load = parameters.load ?? "load";
  const facts = load === "load" ? null : await table(study, `${stage.name}.cell`, { from: 0, to: 50000 }).catch(() => null);
  const byCell = new Map();
  if (facts) for (let i = 0; i < facts.count; i += 1) byCell.set(JSON.stringify(stage.axes.map((a) => String(facts.at(facts.axis(a), i)))), facts.at(load, i));
  const loadOf = (c) => (facts ? byCell.get(JSON.stringify(c.labels.map(String))) ?? null : c.load ?? null);
  const canvas = h("canvas", { role: "img", "aria-label": `${executed.length} cells in the order of execution, coloured by ${axis}` });
  const where = h("figcaption", { class: "screen" }, "Point at a bar to see its cell; click it to open it.");
  const chips = labels[at]?.map((label, i) => h("span", {}, h("span", { class: "chip", style: { background: kind(i).fill } }), `${axis} ${label}`)) ?? [];
  const failed = executed.filter((e) => e.cell.status !== "ok").length;
  if (failed) chips.push(h("span", {}, h("span", { class: "chip hatch hatch-skipped", style: { "background-image": "repeating-linear-gradient(0deg, var(--bad) 0 3px, var(--ground) 3px 5px)" } }), `${plural(failed, "cell")} not ok`));
  const excluded = executed.filter((e) => stateOf(e.cell) === "excluded").length;
  if (excluded) chips.push(h("span", {}, h("span", { class: "chip hatch hatch-excluded" }), `${plural(excluded, "cell")} that a gate excluded`));
  const loads = executed.map((e) => loadOf(e.cell));
  const named = BESIDE.find(([key]) => key === load)?.[1] ?? load;
  const told = loads.filter((v) => v !== null);
  const same = told.length > 0 && told.every((v) => v === told[0]);
  // A constant line becomes a sentence.
  const known = same ? [] : told;
  const bars = () => drawStrip(canvas, executed, loads, known, (e) => kind(Math.max(0, labels[at]?.indexOf(e.cell.labels[at]) ?? 0)).fill);
  const find = (event) => { const box = canvas.getBoundingClientRect(); return executed[Math.floor(((event.clientX - box.left) / box.width) * executed.length)]; };
  canvas.addEventListener("mousemove", (event) => { const e = find(event); if (e) where.textContent = `${plainText(e.cell.at)}${stateOf(e.cell) === "ok" ? "" : ` (${stateOf(e.cell)})`}: ${moment(e.cell.started)}, took ${seconds(e.cell.seconds)}${loadOf(e.cell) === null ? "" : `, ${named} ${digits(loadOf(e.cell))}`}`; });
  canvas.addEventListener("click", (event) => { const e = find(event); if (e) location.hash = cellLink(study, stage.name, e.cell.at); });
  new ResizeObserver(bars).observe(canvas);
  return h("section", {}, h("h2", {}, "Order of execution"),
    h("div", { class: "row" }, stage.axes.length ? select("Colour by", choices.length ? choices : stage.axes, axis, (value) => reshow({ strip: value })) : null,
      select("Line", BESIDE, load, (value) => reshow({ load: value }))),
    h("div", { class: "legend" }, chips, known.length ? h("span", {}, `line: ${named}, ${digits(Math.min(...known))} to ${digits(Math.max(...known))}`) : h("span", {}, same ? `${named}: ${digits(told[0])} in all cells` : `no line: no cell recorded its ${named}`)),
    h("figure", {}, canvas, where),
    h("details", {}, h("summary", {}, "The first cells in order"), h("ol", {}, executed.slice(0, 50).map((e) => h("li", {}, h("a", { href: address(["study", study, "cell", stage.name], { cell: e.cell.at }) }, e.cell.at || stage.name), ` ${moment(e.cell.started)}`)))));
}

function drawStrip(canvas, executed, loads, known, colour) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, known.length ? 110 : 72];
  canvas.width = width * scale;
  canvas.height = height * scale;
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.clearRect(0, 0, width, height);
  const step = width / executed.length;
  executed.forEach((e, i) => {
    const state = stateOf(e.cell);
    context.fillStyle = state === "ok" ? colour(e) : ink(state === "excluded" ? "raised" : "bad");
    const wide = Math.max(step - (step > 4 ? 1 : 0), 0.5);
    context.fillRect(i * step, e.cell.status === "ok" ? 4 : 0, wide, e.cell.status === "ok" ? 48 : 56);
    // A cell that is not ok is striped: a colour alone could be mistaken for a label's.
    context.fillStyle = ink("ground");
    if (e.cell.status !== "ok") for (let y = 4; y < 56; y += 7) context.fillRect(i * step, y, wide, 2);
    // One that a gate excluded is dotted, as in the grid.
    context.fillStyle = ink("soft");
    if (state === "excluded") for (let y = 6; y < 52; y += 6) for (let x = wide > 8 ? 2 : 0; x < wide; x += 6) context.fillRect(i * step + x, y, Math.min(wide, 2), 2);
  });
  const [low, high] = [Math.min(...known), Math.max(...known)];
  context.strokeStyle = ink("text");
  context.beginPath();
  let pen = false;
  loads.forEach((value, i) => {
    if (value === null) { pen = false; return; }
    const y = 96 - ((value - low) / (high - low || 1)) * 34;
    context[pen ? "lineTo" : "moveTo"]((i + 0.5) * step, y);
    pen = true;
  });
  context.stroke();
  context.fillStyle = ink("soft");
  context.font = "11px system-ui";
  for (const at of ticks(0, executed.length, 6)) if (Number.isInteger(at) && at < executed.length) context.fillText(String(at + 1), at * step, height - 2);
}
