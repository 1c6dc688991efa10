// The number drawer: the tree that `benchtrail why` prints, each step a link.

import { address, alertOf, breakable, cellLink, changed, facts, h, replace, splitCell } from "./dom.js";
import { get } from "./api.js";
import { moment, plural, short } from "./format.js";

export async function showDrawer(study, asked, element) {
  const open = Boolean(asked && study);
  document.body.classList.toggle("open", open);
  element.hidden = !open;
  if (!open) return;
  const close = h("button", { class: "close", type: "button", onclick: () => { location.hash = changed({ why: null }); } }, "Close");
  replace(element, close, h("p", { class: "soft" }, "Following the number…"));
  const question = Object.fromEntries(new URLSearchParams(asked));
  try {
    const answer = await get(["studies", study, "why"], question);
    if (element.dataset.asked !== asked) return;
    replace(element, close, answer.several ? choices(answer.several) : tree(study, answer));
  } catch (error) {
    replace(element, close, alertOf(error));
  }
}

function choices(numbers) {
  return [h("h2", {}, "Several numbers are at this place"), h("ul", {}, numbers.slice(0, 60).map((n) => h("li", {},
    h("a", { href: changed({ why: new URLSearchParams({ line: n.line, column: n.column_start }).toString() }) }, `${n.text} at ${n.line}:${n.column_start}`))))];
}

function tree(study, answer) {
  const { number, place } = answer;
  const parameters = place?.parameters ? parse(place.parameters) : null;
  return [
    h("h2", {}, number.value ?? number.text, place?.unit && place.unit !== "1" ? ` ${place.unit}` : ""),
    h("p", { class: "soft" }, answer.meaning, number.format ? `; printed as ${number.text}` : ""),
    (answer.doubts ?? []).map((doubt) => h("p", { class: "note" }, doubt)),
    place && [
      h("h3", {}, "Formula"),
      h("p", {}, place.column ? h("code", {}, place.column) : null, place.description ? `: ${place.description}` : null),
      facts([["made by", place.operator], ["a row is", place.level], ["row", place.row_key && breakable(place.row_key)]]),
      parameters?.query ? h("pre", {}, parameters.query) : place.parameters && h("details", {}, h("summary", {}, "Parameters"), h("pre", {}, pretty(place.parameters))),
      h("h3", {}, "Table row"),
      h("p", {}, tableLink(study, place.name, place.row)),
      h("p", { class: "soft digest" }, short(place.artifact)),
      place.missing?.length ? h("p", { class: "note" }, `The table lacks ${plural(place.missing_in_all ?? place.missing.length, "cell")}.`) : null,
    ],
    answer.lineage && [h("h3", {}, "Made of"), h("ul", { class: "tree" }, lineage(study, answer.lineage))],
    answer.raw?.length ? [h("h3", {}, "Raw rows"), h("ul", { class: "tree" }, answer.raw.slice(0, 40).map((raw) => rawItem(study, raw))), more(answer.raw_in_all ?? answer.raw.length, 40, answer.raw.length)] : null,
    answer.cells?.length ? [h("h3", {}, "Measured cells and their gates"), h("ul", { class: "tree" }, answer.cells.slice(0, 40).map((cell) => cellItem(study, cell))), more(answer.cells_in_all ?? answer.cells.length, 40, answer.cells.length)] : null,
    gates("Gates of the stage as a whole", answer.stage_gates),
    answer.servers?.length ? [h("h3", {}, "Server and host"), answer.servers.map((server) => serverItem(study, server))] : null,
    answer.printed?.length ? [h("h3", {}, "The report prints it"), h("ul", {}, answer.printed.slice(0, 20).map((p) => h("li", {},
      h("a", { href: address(["study", study, "report"], { line: p.line }) }, `line ${p.line}`), ` ${p.words ? p.words.slice(0, 160) : p.text}`)))] : null,
    answer.see?.length ? h("details", {}, h("summary", {}, "The same on the command line"), h("pre", {}, answer.see.join("\n"))) : null,
  ];
}

function parse(text) {
  try { return JSON.parse(text); } catch { return null; }
}

function pretty(text) {
  const value = parse(text);
  return value ? JSON.stringify(value, null, 2) : text;
}

function more(all, most, held) {
  const rest = all - Math.min(most, held);
  return rest > 0 ? h("p", { class: "soft" }, `and ${rest.toLocaleString("en-US")} more`) : null;
}

// `STAGE[cell].OUTPUT` as a link to the row in its table.
function tableLink(study, name, row) {
  const [, stage, at = "", output] = /^([^[.]*)(?:\[(.*)\])?\.(.*)$/s.exec(name) ?? [null, name, "", ""];
  const from = row === null || row === undefined ? null : Math.max(0, row - 5);
  return h("a", { href: address(["study", study, "data"], { table: `${stage}.${output}`, cell: at, from, mark: row }) },
    breakable(row === null || row === undefined ? name : `${name}, row ${row}`));
}

function spans(list) {
  const text = list.slice(0, 4).map((s) => (s.end - s.start === 1 ? `${s.start}` : `${s.start}..${s.end}`)).join(", ");
  return list.length > 4 ? `${text}, …` : text;
}

function lineage(study, node) {
  const first = node.spans[0]?.start ?? null;
  return h("li", {}, tableLink(study, `${node.cell}.${node.output}`, first), h("span", { class: "soft" }, `, ${plural(node.rows, "row")} (${spans(node.spans)})`),
    node.sources.length ? h("ul", { class: "tree" }, node.sources.slice(0, 30).map((source) => sourceItem(study, source)), h("li", {}, more(node.sources_in_all ?? node.sources.length, 30, node.sources.length))) : null);
}

function sourceItem(study, source) {
  if (source.kind === "table") return lineage(study, source);
  if (source.kind === "raw") return rawItem(study, source);
  if (source.kind === "file") return fileItem(source);
  return h("li", { class: "bad" }, `${source.source}: ${source.reason}`);
}

/** The lines of a file behind a table. */
function fileItem(file) {
  const first = (file.spans[0]?.start ?? 0) + 1;
  const text = [file.heading, ...file.text].filter(Boolean).join("\n");
  return h("li", {}, `${file.file}, ${file.counted} ${first}`, h("span", { class: "soft" }, ` ${short(file.artifact)}`),
    file.origin ? h("p", { class: "soft" }, `published in ${file.origin}`) : null,
    text ? h("pre", {}, text) : null);
}

function rawItem(study, raw) {
  const first = raw.spans[0]?.start ?? 0;
  const from = Math.max(0, first - 5);
  return h("li", {}, h("a", { href: cellLink(study, raw.stage, raw.coordinates) }, breakable(raw.coordinates ? `${raw.stage}[${raw.coordinates}]` : raw.stage)), h("br"),
    h("a", { href: address(["study", study, "data"], { table: `${raw.stage}.${raw.output}`, cell: raw.coordinates, from, mark: first }) }, `${raw.output} ${spans(raw.spans)}`),
    h("span", { class: "soft" }, ` ${plural(raw.rows, "row")}, ${short(raw.artifact)}`),
    raw.output === "requests" ? [" ", h("a", { href: address(["study", study, "request", raw.stage], { cell: raw.coordinates, row: first }) }, "first request")] : null);
}

function cellItem(study, cell) {
  const [stage, at] = splitCell(cell.cell);
  const kind = cell.imported ? `imported from ${cell.imported.tool}` : cell.simulated ? "simulated" : "measured";
  return h("li", {}, h("a", { href: cellLink(study, stage, at) }, breakable(cell.cell)), h("br"),
    h("span", { class: "soft" }, `${kind} ${cell.started ? moment(cell.started) : ""}; `), tally(cell.gates),
    [...cell.gates.fail, ...cell.gates.not_judged].map(finding), cell.warnings.map((w) => h("p", { class: "warn" }, w)));
}

function tally(gates) {
  return h("span", {}, `${gates.pass} pass, `, h("span", { class: gates.fail.length ? "bad" : null }, `${gates.fail.length} fail`), `, ${gates.not_judged.length} not judged`);
}

function finding(f) {
  return h("p", {}, h("span", { class: f.outcome === "fail" ? "bad" : "warn" }, `${f.gate} (${f.severity}): ${f.outcome}. `), f.observed, f.expected ? `; expected ${f.expected}` : "");
}

function gates(title, list) {
  if (!list || list.pass + list.fail.length + list.not_judged.length === 0) return null;
  return [h("h3", {}, title), h("p", {}, tally(list)), [...list.fail, ...list.not_judged].map(finding)];
}

function serverItem(study, server) {
  const [stage, at] = splitCell(server.cell);
  const host = server.facets && typeof server.facets === "object" ? Object.entries(server.facets).map(([k, v]) => `${k} ${typeof v === "object" ? JSON.stringify(v) : v}`).join(", ") : null;
  return h("div", {}, facts([
    ["cell", h("a", { href: cellLink(study, stage, at) }, breakable(server.cell))],
    ["engine", [server.engine, server.version].filter(Boolean).join(" ")], ["model", server.model], ["host", host],
  ]), h("details", {}, h("summary", {}, "Settings of the server"), h("pre", {}, JSON.stringify(server.settings, null, 2))));
}

export function watchEscape(element) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !element.hidden) location.hash = changed({ why: null });
  });
}
