// Every table, sortable and filterable, and a box for SQL with a shareable address.

import { address, alertOf, cellLink, cellText, h, here, replace, reshow, say, select, whyLink } from "./dom.js";
import { asTable, get, isFile, objectText, save, table } from "./api.js";
import { plural } from "./format.js";
import { tableView } from "./table.js";

// The most rows and values of a page: a browser needs a second for 30,000 values.
const PAGE_ROWS = 200;
const PAGE_VALUES = 8000;
const FEWEST_ROWS = 20;

export async function dataView(main, study) {
  const { parameters } = here();
  const overview = await get(["studies", study]);
  // A condition on a column of the table before means nothing for another table.
  const other = Object.fromEntries(Object.keys(conditions(parameters)).map((name) => [name, null]));
  const names = overview.tables.filter((t) => !t.lineage || t.name === parameters.table).map((t) => t.name);
  const name = parameters.table ?? overview.tables.find((t) => t.output === "cells" && t.cells === 1)?.name ?? names[0];
  const sql = h("textarea", { rows: "4", spellcheck: "false", "aria-label": "One SELECT" }, parameters.sql ?? "");
  const ask = () => reshow({ ...other, sql: sql.value || null, table: null, cell: null, from: null, sort: null, order: null, contains: null });
  const box = isFile() ? null : h("details", { open: Boolean(parameters.sql) }, h("summary", {}, "Ask in SQL"),
    h("p", { class: "soft" }, "A table is \"STAGE.OUTPUT\" in double quotes; Ctrl-Enter runs the query. You can share the address of the answer. Select all axes to link each row to its cell, and also request_id to link it to its request."), sql,
    h("div", { class: "row" }, h("button", { type: "button", onclick: ask }, "Ask"), h("button", { type: "button", onclick: () => reshow({ sql: null }) }, "Clear")));
  sql.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(); });
  const shown = h("div", {}, h("p", { class: "soft" }, "Reading…"));
  const unread = (overview.unread ?? []).map((why) => h("p", { class: "note" }, `The tables of a stage cannot be listed: ${why}. \`benchtrail fsck\` lists what is damaged.`));
  replace(main, h("h1", {}, "Data"), unread, box, parameters.sql ? null : h("div", { class: "row" }, select("Table", names, name, (value) => reshow({ ...other, table: value, cell: null, from: null, sort: null, order: null, contains: null, mark: null })),
    h("label", {}, "Rows that contain", h("input", { type: "search", value: parameters.contains ?? "", disabled: isFile(), "data-control": "contains", onchange: (e) => reshow({ contains: e.target.value || null, from: null }) })),
    h("label", {}, "Columns named like", h("input", { type: "search", value: parameters.named ?? "", placeholder: "ttft, throughput", "data-control": "named", onchange: (e) => reshow({ named: e.target.value || null }) }))), shown);
  try {
    if (parameters.sql) await answer(shown, study, overview, parameters);
    else if (name) await rows(shown, study, name, overview, parameters);
    else replace(shown, h("p", { class: "note" }, "No cell of this study is ok, so it has no tables. The view Cells shows the state of each cell."));
  } catch (error) {
    replace(shown, alertOf(error));
  }
}

function bounds(parameters) {
  const from = Number(parameters.from ?? 0);
  return { from, to: from + PAGE_ROWS };
}

// The first rows of a reply, as many as a page shows at once.
function firstPage(found, narrow) {
  const size = Math.min(PAGE_ROWS, Math.max(FEWEST_ROWS, Math.floor(PAGE_VALUES / Math.max(1, narrow.columns.length))));
  const count = Math.min(found.rows.length, size);
  const cut = (list) => list?.slice(0, count);
  return { ...narrow, size, count, rows: cut(narrow.rows), cell: cut(narrow.cell), cell_row: cut(narrow.cell_row), columns: narrow.columns.map((c) => ({ ...c, values: c.values.slice(0, count) })) };
}

function ordered(parameters) {
  const sort = parameters.sort ? { column: parameters.sort, descending: parameters.order === "desc" } : null;
  if (isFile()) return { sort: null, onsort: null };
  const onsort = (column) => reshow(sort?.column === column && !sort.descending ? { order: "desc" } : sort?.column === column ? { sort: null, order: null } : { sort: column, order: null, from: null });
  return { sort, onsort };
}

async function answer(shown, study, overview, parameters) {
  const { sort, onsort } = ordered(parameters);
  const question = { query: parameters.sql, ...bounds(parameters), ...sorting(parameters) };
  const [reply, stages] = await Promise.all([get(["studies", study, "sql"], question), stagesOf(study)]);
  const whole = asTable(reply);
  const found = firstPage(whole, whole);
  // A table may be named without its stage.
  const words = new Set(parameters.sql.split(/[^\w.-]+/));
  const read = overview.tables.filter((t) => words.has(t.name) || words.has(t.output)).flatMap((t) => t.reads);
  replace(shown, found.notes.map((n) => h("p", { class: "note" }, n)), pages(found), tableView(found, { sort, onsort, ...places(study, whole, stages, read, overview) }),
    saver(["studies", study, "sql"], { query: parameters.sql, ...sorting(parameters) }, "answer", { rows: found.rows_in_all }));
}

// Every cell of the study, by stage. Damage there must not hide a table.
const stagesOf = (study) => get(["studies", study, "cells"]).then((c) => c.stages).catch(() => []);

// The links of a table whose rows name cells: by the labels of all axes of the one stage that it reads, together with the id
// of a request, or by a column `cell`.
function places(study, found, stages, read, overview) {
  const labelled = stages.filter((s) => read.includes(s.name) && s.axes.length && s.axes.every((axis) => found.has(found.axis(axis))));
  const [stage] = labelled.length === 1 ? labelled : [];
  const key = (labels) => JSON.stringify(labels.map(String));
  const cells = new Map((stage?.cells ?? []).map((c) => [key(c.labels), c.at]));
  const hasRequests = stage && found.has("request_id") && overview.tables.some((t) => t.name === `${stage.name}.requests`);
  const rowLink = (_, i) => {
    const at = stage && cells.get(key(stage.axes.map((axis) => found.at(found.axis(axis), i))));
    const id = hasRequests ? found.at("request_id", i) : null;
    return at === undefined ? null : id === null ? cellLink(study, stage.name, at) : address(["study", study, "request", stage.name], { cell: at, id, attempt: found.at("attempt", i) });
  };
  const places = new Map(stages.map((s) => [s.name, new Set(s.cells.map((c) => c.at))]));
  const textLink = (column, i) => {
    if (column.name !== "cell" || !column.values[i]) return null;
    const named = found.at("stage", i);
    const having = [...places].filter(([name, all]) => (named === null || named === name) && all.has(column.values[i]));
    return having.length === 1 ? cellLink(study, having[0][0], column.values[i]) : null;
  };
  return { rowLink, textLink };
}

async function rows(shown, study, name, overview, parameters) {
  const { sort, onsort } = ordered(parameters);
  const entry = overview.tables.find((t) => t.name === name);
  const cell = parameters.cell;
  const question = isFile() ? { ...(cell && { cell }), ...bounds(parameters), ...conditions(parameters) }
    : { ...(cell && { cell }), ...bounds(parameters), ...filtering(parameters), ...sorting(parameters) };
  const [found, stages] = await Promise.all([table(study, name, question), stagesOf(study)]);
  const narrow = firstPage(found, named(found, parameters.named, entry));
  const single = cell !== undefined || entry?.cells === 1;
  // A row of a table over cells belongs to a cell, in whose table it has another place.
  const placed = narrow.cell ? (i) => [narrow.cell[i], narrow.cell_row[i]] : single ? (i) => [cell ?? "", narrow.rows[i]] : null;
  // The labels of cells are in no cell's own table.
  const labels = new Set(narrow.cell ? (entry?.axes ?? []).map(found.axis) : []);
  const link = placed && ((column, i) => { if (labels.has(column.name)) return null; const [at, row] = placed(i); return whyLink({ table: name, cell: at, row, column: column.name }); });
  const part = { ...filtering(parameters), ...sorting(parameters), ...(narrow.columns.length < found.columns.length && { columns: narrow.columns.map((c) => c.name).join(",") }) };
  const files = isFile() ? null : saver(["studies", study, "tables", name], { ...(cell !== undefined && { cell }), ...part }, name, { rows: found.rows_in_all, whole: cell === undefined ? {} : { cell } });
  const only = Object.entries(conditions(parameters));
  const [stage] = name.split(".");
  const inside = places(study, found, stages, entry?.reads ?? [], overview);
  const isRequests = name.endsWith(".requests") && placed !== null;
  const rowLink = isRequests ? (_, i) => { const [at, row] = placed(i); return address(["study", study, "request", stage], { cell: at, row }); }
    : narrow.cell ? (_, i) => cellLink(study, stage, narrow.cell[i]) : inside.rowLink;
  replace(shown, cell !== undefined && cell !== "" ? h("p", {}, "of ", h("a", { href: address(["study", study, "cell", stage], { cell }) }, cellText(stage, cell))) : null,
    found.notes.map((n) => h("p", { class: "note" }, n)), found.metadata?.operator ? h("p", { class: "soft" }, `Made by ${found.metadata.operator}.`) : null, pages(narrow),
    only.length ? h("div", { class: "row" }, h("span", {}, `Only rows with ${only.map(([column, value]) => `${column.slice(3)} ${value}`).join(", ")}.`), h("button", { type: "button", "data-control": "every-row", "data-or": "contains", onclick: () => reshow({ ...Object.fromEntries(only.map(([column]) => [column, null])), from: null }) }, "All rows")) : null,
    narrow.columns.length < found.columns.length ? h("p", { class: "soft" }, `${narrow.columns.length} of ${plural(found.columns.length, "column")}.`) : null,
    tableView(narrow, { sort, onsort, ...(link && { link }), rowLink, textLink: inside.textLink }), files);
  const mark = parameters.mark === undefined ? -1 : found.rows.indexOf(Number(parameters.mark));
  const line = shown.querySelectorAll("tbody tr")[mark];
  if (line) { line.classList.add("here"); line.scrollIntoView({ block: "nearest" }); }
}

// The columns whose names contain one of the words, and those that identify a row: the keys, and the labels of its cell.
function named(found, text, entry) {
  const words = (text ?? "").toLowerCase().split(/[\s,]+/).filter(Boolean);
  if (!words.length) return found;
  const keys = [...(found.metadata?.keys ?? "").split(","), ...(found.cell ? (entry?.axes ?? []).map(found.axis) : []), "request_id", "attempt"];
  return { ...found, columns: found.columns.filter((c) => keys.includes(c.name) || words.some((word) => c.name.toLowerCase().includes(word))) };
}

const sorting = (parameters) => (parameters.sort ? { sort: parameters.sort, order: parameters.order ?? "asc" } : {});
const conditions = (parameters) => Object.fromEntries(Object.entries(parameters).filter(([name]) => name.startsWith("eq.")));
const filtering = (parameters) => ({ ...(parameters.contains && { contains: parameters.contains }), ...conditions(parameters) });

// The most rows of one CSV answer.
const MOST_CSV = 50000;

// Saves the rows and columns that are shown, in their order. A Parquet file is the whole table as it is stored.
function saver(path, parameters, name, { rows: count, whole = null }) {
  const button = (format, asked, text) => h("button", { type: "button", onclick: () => save(path, { ...asked, format }, `${name}.${format}`).catch((e) => say(e.message)) }, text);
  const isPart = whole && Object.keys(parameters).length > Object.keys(whole).length;
  return h("div", { class: "row" }, button("csv", parameters, count > MOST_CSV ? `Save the first ${MOST_CSV.toLocaleString("en-US")} rows as CSV` : "Save as CSV"),
    whole ? button("parquet", whole, isPart ? "Save the whole table as Parquet" : "Save as Parquet") : null);
}

function pages(found) {
  const { from, size, count, rows_in_all: all } = found;
  const step = (to, text, or) => h("button", { type: "button", "data-control": text, "data-or": or, onclick: () => reshow({ from: to || null, mark: null }) }, text);
  return h("div", { class: "row" }, h("span", {}, all > count ? `rows ${from.toLocaleString("en-US")} to ${(from + count - 1).toLocaleString("en-US")} of ${all.toLocaleString("en-US")}` : plural(all, "row")),
    from > 0 ? step(Math.max(0, from - size), "Earlier", "Later") : null, from + count < (found.rows_held ?? all) ? step(from + count, "Later", "Earlier") : null);
}

// Any object as text: a log, a descriptor, a record.
export async function objectView(main, digest) {
  const text = await objectText(digest);
  const most = 400000;
  let shown = text;
  try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* It is no JSON. */ }
  replace(main, h("h1", {}, "Object"), h("p", { class: "digest" }, digest), h("pre", {}, shown.slice(0, most)), shown.length > most ? h("p", { class: "note" }, `The first ${most} of ${plural(shown.length, "character")}.`) : null);
}
