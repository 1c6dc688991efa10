// Two labels of an axis, or two studies, side by side. The program computed every interval and every verdict; the page
// only shows them.

import { address, alertOf, breakable, cellLink, facts, h, here, replace, reshow, select, sentence } from "./dom.js";
import { get, renew } from "./api.js";
import { betterOf, byLabel, columnWords, digits, plural, short, unitOrNull, valuesOf, withUnit } from "./format.js";
import { csvText, download, plotOf, svgText } from "./plot.js";
import { NOTHING, leftOut } from "./plots.js";

const STATES = { confound: "confound: the experiment did not choose it", unknown: "unknown: one side does not report it", follows: "follows: computed from planned settings", planned: "planned: the experiment chose it" };
// The differences that are listed at first.
const FACETS = 400;
const CLASS = { confound: "bad", unknown: "warn" };

export async function contrastView(main, study) {
  const { parameters } = here();
  const [overview, cells, list] = await Promise.all([get(["studies", study]), get(["studies", study, "cells"]), get(["studies"]).catch(() => ({ studies: [] }))]);
  const stages = cells.stages.filter((s) => s.class === "measurement" && s.axes.length);
  const stage = stages.find((s) => s.name === parameters.stage) ?? stages[0];
  const others = list.studies.filter((s) => s.id !== study);
  const nameOf = (s) => (s.profile ? `${s.experiment} (${s.profile})` : s.experiment);
  const another = others.length ? select("Or with another study", [["", "choose one"], ...others.map((s) => [s.id, nameOf(s)])], "", (id) => { if (id) location.hash = address(["compare", id, study]); }) : null;
  const shown = h("div", {}, h("p", { class: "soft" }, "Reading…"));
  if (!stage) {
    replace(main, h("h1", {}, "Compare"), h("div", { class: "row" }, another), h("p", {}, "No measured stage of this study has an axis, so there is nothing to compare within it."));
    return;
  }
  const repeats = new Set([...(overview.replicates ?? []), "block"]);
  const axes = stage.axes.map((axis, i) => ({ axis, labels: [...new Set(stage.cells.map((c) => c.labels[i]))].sort(byLabel) })).filter((a) => a.labels.length > 1);
  const axis = axes.find((a) => a.axis === parameters.axis) ?? axes.find((a) => !repeats.has(a.axis)) ?? axes[0];
  if (!axis) {
    replace(main, h("h1", {}, "Compare"), h("div", { class: "row" }, another), h("p", {}, "No axis of this study has two labels, so there is nothing to compare within it. Tick two studies in the list of studies to compare those."));
    return;
  }
  const pick = (asked, usual) => axis.labels.find((l) => String(l) === asked) ?? usual;
  const a = pick(parameters.a, axis.labels[0]);
  const b = pick(parameters.b, axis.labels.find((l) => l !== a));
  const options = axis.labels.map((l) => [String(l), String(l)]);
  replace(main, h("h1", {}, `${axis.axis}: ${a} against ${b}`), h("div", { class: "row" }, stages.length > 1 ? select("Stage", stages.map((s) => s.name), stage.name, (name) => reshow({ stage: name, axis: null, a: null, b: null })) : null,
    select("Axis", axes.map((x) => x.axis), axis.axis, (name) => reshow({ axis: name, a: null, b: null, unit: null })), select("One side", options, String(a), (label) => reshow({ a: label })), select("The other, the base", options, String(b), (label) => reshow({ b: label })), another), shown);
  try {
    const question = { stage: stage.name, axis: axis.axis, a: String(a), b: String(b), ...(parameters.unit && { unit: parameters.unit }), ...(parameters.table && { table: parameters.table }) };
    const found = await get(["studies", study, "contrast"], question);
    replace(shown, resultsOf(found, stage, parameters), overlaid(study, stage, axis.axis, [a, b], axes, repeats, parameters), facetsOf(found.facets, [String(a), String(b)], found.pairs ? "No recorded setting, server or machine differs." : "No cells could be compared.", { pairs: found.pairs, link: (at) => cellLink(study, stage.name, at) }),
      found.pairs_unread.map((why) => h("p", { class: "note" }, `Some cells could not be compared: ${why}.`)),
      h("p", { class: "soft" }, `Compared: ${plural(found.pairs, "pair")} of cells that differ only in ${axis.axis}, for instance `, found.example.map((at, i) => [i ? " and " : "", h("a", { href: cellLink(study, stage.name, at) }, at)])));
  } catch (error) {
    replace(shown, alertOf(error));
  }
}

const percent = (share) => (share === null || share === undefined ? "–" : `${share > 0 ? "+" : share < 0 ? "−" : ""}${digits(Math.abs(share) * 100, 3)} %`);
// A column may lack a value at some coordinates, so each has its own number of them.
const COORDINATES = "coordinates";
const bracket = (low, high) => (low === null || low === undefined ? "–" : `${percent(low - 1)} to ${percent(high - 1)}`);

function resultsOf(found, stage, parameters) {
  const { results } = found;
  if (!results.table) return [h("h2", {}, "Results"), h("p", { class: "note" }, results.reason)];
  const units = results.could_be_units ?? [];
  const chooser = units.length ? select("Unit of replication", [["", units.includes("block") ? "block" : "none"], ...units.filter((u) => u !== "block").map((u) => [u, `${u} (you declare that each label is a separate launch)`])], parameters.unit ?? "", (unit) => reshow({ unit: unit || null })) : null;
  // A side is better if the whole interval is on its side of no change.
  const winner = (r, column) => {
    const better = betterOf(column);
    if (!better || r.low === undefined || r.low === null) return "–";
    if (r.low <= 1 && r.high >= 1) return "not shown";
    return String(r.low > 1 === (better === "more") ? found.a : found.b);
  };
  const named = ["better side", "change", `${digits(results.level * 100)} % interval of the change`, "n", `smallest change found in ${digits(results.power * 100)} % of studies`];
  const heading = (extra, sides) => h("thead", {}, h("tr", {}, [...extra, ...(sides ? [String(found.a), `${found.b}, the base`] : []), ...named].map((t, i) => h("th", { scope: "col", class: (i >= extra.length && t !== "better side") || t === COORDINATES ? "number" : null }, t))));
  const value = (v, unit) => h("td", { class: "number" }, v === undefined || v === null ? "–" : `${digits(v)} ${unit}`);
  const line = (r, unit, column, head, sides) => h("tr", {}, head, sides ? [value(r.a, unit), value(r.b, unit)] : null, h("td", {}, winner(r, column)),
    h("td", { class: "number" }, r.ratio === null || r.ratio === undefined ? "–" : percent(r.ratio - 1)), h("td", { class: "number" }, r.low === undefined ? r.reason ?? "–" : bracket(r.low, r.high)), h("td", { class: "number" }, r.n ? String(r.n) : "–"), h("td", { class: "number" }, r.smallest_detectable === undefined || r.smallest_detectable === null ? "–" : percent(r.smallest_detectable)));
  const unitOf = (c) => unitOrNull(c.unit) ?? "";
  const all = results.columns.map((c) => line(c.overall, unitOf(c), c.column, [h("td", { title: c.description }, columnWords(c.column), betterOf(c.column) ? h("small", { class: "soft" }, ` ${betterOf(c.column)} is better`) : null), h("td", { class: "number" }, (c.overall.coordinates ?? 0).toLocaleString("en-US"))], false));
  const each = results.columns.map((c) => h("details", {}, h("summary", {}, `${columnWords(c.column)} at each of ${plural(c.at.length, "coordinate")}`),
    h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": `${c.column} at each coordinate` }, h("table", {}, heading(results.places, true), h("tbody", {}, c.at.map((r) => line(r, unitOf(c), c.column, r.at.map((label) => h("td", {}, String(label))), true)))))));
  const values = valuesOf(results, stage);
  return [h("h2", {}, "Results"), values ? h("p", { class: "note" }, values) : null, chooser ? h("div", { class: "row" }, chooser) : null,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results over all coordinates" }, h("table", {}, heading(["column", COORDINATES], false), h("tbody", {}, all))),
    h("p", { class: "soft" }, `From the table ${results.table}. ${results.units.length ? `Each unit of replication (${results.interval_of}) has one ratio of both sides, and the ratios are averaged as logarithms; the interval is over the units.` : "The change is the ratio of both sides. It has no interval: no axis of the table stands for launches, and a repetition within one launch does not tell how the next launch comes out."} It is not adjusted for a family of comparisons. “Not shown”: the interval contains zero. For a verdict, add a table of the operator paired-comparison to the experiment.`), each];
}

// The distributions of both sides in one picture.
function overlaid(study, stage, axis, labels, axes, repeats, parameters) {
  const box = h("div", { class: "plot" }, h("p", { class: "soft" }, "Reading the requests…"));
  const metric = parameters.metric ?? "ttft_ms";
  const kept = axes.filter((x) => x.axis !== axis && !repeats.has(x.axis)).map((x) => ({ axis: x.axis, labels: x.labels, label: x.labels.find((l) => String(l) === parameters[`only.${x.axis}`]) ?? x.labels[0] }));
  const question = { stage: stage.name, metric, by: axis, ...Object.fromEntries(kept.map((k) => [`only.${k.axis}`, String(k.label)])) };
  get(["studies", study, "distribution"], question).then((found) => {
    const groups = labels.map((label) => found.groups.find((g) => String(g.labels[0]) === String(label))).filter(Boolean);
    const unit = found.unit && found.unit !== "1" ? ` (${found.unit})` : "";
    const picture = (width) => plotOf([{ lines: groups.map((g, series) => ({ series, step: true, points: g.points.map(([v, rank]) => [v, rank / g.n]) })) }], { x: { label: `${columnWords(metric)}${unit}, log`, log: true }, y: { label: "share of requests" }, names: groups.map((g, series) => ({ series, text: `${axis} ${g.labels[0]}, ${plural(g.n, "request")}` })), width, height: 300, label: `Distribution of ${metric} of both sides` });
    const drawn = groups.some((g) => g.n);
    replace(box, drawn ? redrawn(box, picture) : h("p", { class: "note" }, NOTHING), leftOut(groups).concat(found.notes ?? []).map((n) => h("p", { class: "soft" }, `${n}.`)), drawn && h("div", { class: "row" }, h("button", { type: "button", onclick: () => download(svgText(picture(900), `Distribution of ${metric}`), `${metric}-compared.svg`, "image/svg+xml") }, "Save as SVG"),
      h("button", { type: "button", onclick: () => download(csvText([axis, "n", `${metric}${unit}`, "share at most"], groups.flatMap((g) => g.points.map(([v, rank]) => [g.labels[0], g.n, v, rank / g.n]))), `${metric}-compared.csv`, "text/csv") }, "Save as CSV")));
  }).catch((error) => replace(box, h("p", { class: "note" }, sentence(error))));
  const metrics = ["ttft_ms", "tpot_ms", "e2e_latency_ms", "decode_rate"].map((m) => [m, columnWords(m)]);
  return [h("h2", {}, "Distributions"), h("div", { class: "row" }, select("Of", metrics, metric, (value) => reshow({ metric: value })), kept.map((k) => select(k.axis, k.labels.map((l) => [String(l), `only ${l}`]), String(k.label), (label) => reshow({ [`only.${k.axis}`]: label })))), box];
}

// A picture as wide as its box, also after the window changes.
function redrawn(box, picture) {
  const holder = h("div");
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.max(300, Math.min(1400, box.clientWidth || 800));
    if (Math.abs(width - drawn) > 8) { drawn = width; replace(holder, picture(width)); }
  }).observe(box);
  replace(holder, picture(drawn = Math.max(300, Math.min(1400, box.clientWidth || 800))));
  return holder;
}

// The differences of two sides. Those of two labels come from `pairs` of cells, and each names the first pair that has it.
function facetsOf(list, [a, b], none, { pairs = null, link = null } = {}) {
  const counts = new Map();
  for (const f of list) counts.set(f.status, (counts.get(f.status) ?? 0) + 1);
  const text = (value) => (value === null || value === undefined ? "not reported" : typeof value === "string" ? value : !Array.isArray(value) ? JSON.stringify(value) : value.length ? `only here: ${value.join(", ")}` : "–");
  const body = h("tbody", {});
  const more = h("button", { type: "button", onclick: () => { body.append(...list.slice(FACETS).map(line)); more.remove(); } }, `Show the other ${(list.length - FACETS).toLocaleString("en-US")}`);
  const line = (f) => h("tr", {}, h("td", { class: CLASS[f.status] ?? null }, f.status), h("td", {}, f.at), h("td", {}, f.key),
    pairs === null ? null : h("td", { class: "number" }, h("a", { href: link(f.first[1]), title: `first in ${f.first.join(" and ")}` }, `${f.pairs.toLocaleString("en-US")} of ${pairs.toLocaleString("en-US")}`), f.values > 1 ? h("small", { class: "soft", title: "the values are those of the first pair" }, ` (${plural(f.values, "variant")})`) : null),
    h("td", { class: "long" }, text(f.a)), h("td", { class: "long" }, text(f.b)));
  body.append(...list.slice(0, FACETS).map(line));
  const table = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "What differs" }, h("table", {}, h("thead", {}, h("tr", {}, ["state", "where", "what", ...(pairs === null ? [] : ["pairs of cells"]), a, b].map((t, i) => h("th", { scope: "col", class: pairs !== null && i === 3 ? "number" : null }, t)))), body));
  return [h("h2", {}, "Settings, servers and machines"), list.length ? [h("ul", {}, Object.keys(STATES).filter((s) => counts.has(s)).map((s) => h("li", { class: CLASS[s] ?? null }, `${counts.get(s).toLocaleString("en-US")} ${STATES[s]}`))), table, list.length > FACETS ? more : null]
    : h("p", {}, none)];
}

// Two studies, in the comparison of `benchtrail diff`.
export async function pairView(main, older, newer) {
  const { parameters } = here();
  await renew(older);
  await renew(newer);
  const found = await get(["studies", older, "compare"], { with: newer, ...(parameters.unit && { unit: parameters.unit }) });
  const title = (s) => (s.profile ? `${s.experiment} (${s.profile})` : s.experiment);
  const { comparison } = found;
  const link = (s) => h("a", { href: address(["study", s.id]) }, title(s));
  const worst = found.outcome === "fail" ? "bad" : found.outcome === "pass" ? "ok" : "warn";
  const said = { pass: "No column is worse by as much as the threshold.", fail: "A column is worse.", undecidable: "The data do not show whether anything became worse." }[found.outcome];
  const gate = comparison.gate ?? [];
  const results = comparison.results ?? [];
  const shared = [...new Set(results.map((r) => r.at))];
  replace(main, h("h1", {}, `${title(found.a)} and ${title(found.b)}`),
    facts([["older", [link(found.a), ` trail ${short(found.a.trail)}`]], ["newer", [link(found.b), ` trail ${short(found.b.trail)}`]], ["swap", h("a", { href: address(["compare", newer, older]) }, "take the other one as the base")]]),
    h("p", { class: worst }, said),
    h("div", { class: "row" }, h("label", {}, "Unit of replication", h("input", { value: parameters.unit ?? "", placeholder: "block", size: "12", onchange: (e) => reshow({ unit: e.target.value || null }) }))),
    gate.length ? [h("h2", {}, "Over all coordinates"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Gate" }, h("table", { class: "headed" }, h("thead", {}, h("tr", {}, ["column", "coordinates", "units", "worsening", "its one-sided bounds, 95 %", "smallest worsening found in 80 % of studies", "conclusion"].map((t, i) => h("th", { scope: "col", class: i && i < 6 ? "number" : null }, t)))),
      h("tbody", {}, gate.map((g) => h("tr", {}, h("td", {}, columnWords(g.column)), h("td", { class: "number" }, String(g.coordinates)), h("td", { class: "number" }, g.n_a ? `${g.n_a}, ${g.n_b}` : "–"), h("td", { class: "number" }, percent(g.worsening)), h("td", { class: "number" }, g.low === null ? "–" : `${percent(g.low)} to ${percent(g.high)}`), h("td", { class: "number" }, percent(g.smallest_detectable)), h("td", { class: "long" }, g.outcome, g.reason ? `: ${g.reason}` : ""))))))] : null,
    results.length ? [h("h2", {}, `Results at ${plural(shared.length, "coordinate")}`), h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Results" }, h("table", {}, h("thead", {}, h("tr", {}, ["coordinate", "column", "older", "newer", "change", "n", "p after Holm", "verdict"].map((t, i) => h("th", { scope: "col", class: i > 1 && i < 7 ? "number" : null }, t)))),
      h("tbody", {}, results.slice(0, 600).map((r) => h("tr", {}, h("td", { class: "wrap at" }, breakable(r.at)), h("td", {}, columnWords(r.column)), h("td", { class: "number" }, withUnit(r.mean_a, r.unit)), h("td", { class: "number" }, withUnit(r.mean_b, r.unit)), h("td", { class: "number" }, percent(r.change)), h("td", { class: "number" }, `${r.n_a}, ${r.n_b}`), h("td", { class: "number" }, digits(r.holm_p)), h("td", { class: r.verdict === "regression" ? "bad" : r.verdict === "improvement" ? "ok" : null, title: r.reason ?? null }, r.verdict.replaceAll("-", " "))))))), results.length > 600 ? h("p", { class: "soft" }, `The first 600 of ${results.length.toLocaleString("en-US")}; \`benchtrail diff\` has all.`) : null]
      : h("p", { class: "note" }, `No result can be compared: ${whyNothing(found)}.`),
    overlaidStudies(found, parameters), facetsOf(found.facets, ["older", "newer"], noFacet(found)),
    (comparison.recipes ?? []).length ? [h("h2", {}, "Different settings"), h("ul", {}, comparison.recipes.slice(0, 80).map((r) => h("li", {}, `${r.stage}: ${r.what} (${r.cells} of ${plural(r.of, "cell")})`)))] : null,
    (comparison.cells ?? []).length ? [h("h2", {}, "Cells in only one study, or with a different status"), h("ul", {}, comparison.cells.slice(0, 40).map((c) => h("li", {}, `${c.cell}: ${c.a ?? "absent"}, then ${c.b ?? "absent"}`))), comparison.cells.length > 40 ? h("p", { class: "soft" }, `and ${comparison.cells.length - 40} more`) : null] : null);
}

// Why two studies have no result in common.
function whyNothing({ tables_in_both: tables, cells_in_both: paired, comparison }) {
  if (!tables) return "both studies need a table of the operator cell-summary with the same columns";
  if (paired) return "both studies have a table of cells, but no column of it has values at the same labels in both";
  const only = (side) => (comparison.cells ?? []).find((c) => (c[side] ?? null) !== null && (c[side === "a" ? "b" : "a"] ?? null) === null)?.cell;
  const some = [["older", only("a")], ["newer", only("b")]].filter(([, cell]) => cell).map(([side, cell]) => `only the ${side} one has, for instance, ${cell}`);
  return `no cell has the same labels in both${some.length ? `: ${some.join("; ")}` : ""}`;
}

// What the absence of differences in servers and machines means.
function noFacet({ cells_in_both: paired, comparison }) {
  if (!paired) return "No measured cell has the same labels in both, so no server or machine was compared with another.";
  return (comparison.recipes ?? []).length ? "No recorded server or machine differs. The settings that differ are below." : "No recorded setting, server or machine differs.";
}

// The distributions of both studies over the requests of a common stage.
function overlaidStudies(found, parameters) {
  const box = h("div", { class: "plot" });
  const metric = parameters.metric ?? "ttft_ms";
  const read = async () => {
    const all = await Promise.all([found.a, found.b].map((s) => get(["studies", s.id, "cells"])));
    const measured = all.map((c) => c.stages.filter((s) => s.class === "measurement").map((s) => s.name));
    const stage = measured[0].find((name) => measured[1].includes(name));
    if (!stage) { replace(box, h("p", { class: "soft" }, "They have no measured stage of the same name.")); return; }
    const groups = (await Promise.all([found.a, found.b].map((s) => get(["studies", s.id, "distribution"], { stage, metric })))).map((d) => ({ ...d.groups[0], unit: d.unit, notes: d.notes }));
    const unit = groups[0].unit && groups[0].unit !== "1" ? ` (${groups[0].unit})` : "";
    replace(box, redrawn(box, (width) => plotOf([{ lines: groups.map((g, series) => ({ series, step: true, points: (g.points ?? []).map(([v, rank]) => [v, rank / g.n]) })) }], { x: { label: `${columnWords(metric)}${unit}, log`, log: true }, y: { label: "share of requests" }, names: groups.map((g, series) => ({ series, text: `${series ? "newer" : "older"}, ${plural(g.n ?? 0, "request")}` })), width, height: 300, label: `Distribution of ${metric} in both studies` })),
      leftOut(groups).concat(groups.flatMap((g) => g.notes ?? [])).map((n) => h("p", { class: "soft" }, `${n}.`)),
      h("p", { class: "soft" }, `All requests of the stage ${stage}, at all coordinates. If the studies have different cells, the mixture also differs.`));
  };
  read().catch((error) => replace(box, h("p", { class: "note" }, sentence(error))));
  return [h("h2", {}, "Distributions"), h("div", { class: "row" }, select("Of", ["ttft_ms", "tpot_ms", "e2e_latency_ms", "decode_rate"].map((m) => [m, columnWords(m)]), metric, (value) => reshow({ metric: value }))), box];
}
