// One cell: its requests over the tracks of the machine, on one clock.

import { address, amend, cellLink, cellText, facts, h, here, replace, whyLink } from "./dom.js";
import { asTable, get, table } from "./api.js";
import { bytesText, digits, nanoseconds, plural, seconds, short } from "./format.js";
import { tableView } from "./table.js";
import { chart, inFlight, waterfall } from "./tracks.js";

const MOST = 5000;
const SHOWN = 60;

export async function cellView(main, study, stage) {
  const { parameters } = here();
  const at = parameters.cell ?? "";
  const cell = await get(["studies", study, "cell"], { stage, cell: at });
  const outputs = [...(cell.outputs ?? []), ...(cell.evidence ?? [])];
  const has = (name) => outputs.some((o) => o.name === name);
  const load = (name) => (has(name) ? table(study, `${stage}.${name}`, { cell: at, from: 0, to: MOST }).catch(() => null) : null);
  const [requests, host, processes, gpu, slots, metrics, one] = await Promise.all(["requests", "host_telemetry", "process_telemetry", "gpu_telemetry", "slots", "server_metrics", "cell"].map(load));
  const record = cell.record;
  replace(main, h("h1", {}, cellText(stage, at)),
    cell.status === "ok" ? null : h("p", { class: "error" }, `${cell.status}${cell.reason ? `: ${cell.reason}` : ""}. What it left is evidence, and enters no statistic.`),
    facts([
      ["state", h("span", { class: cell.status === "ok" ? "ok" : "bad" }, cell.status)],
      ["executed", record && `${record.started}, ${seconds(record.seconds)}, place ${record.order} in its run`],
      ["record", cell.record_digest && h("span", { class: "digest", title: cell.record_digest }, short(cell.record_digest))],
      ["earlier", cell.earlier?.length ? `${plural(cell.earlier.length, "execution")} whose result is not in use: ${cell.earlier.map((e) => `${e.status} ${short(e.record)}`).join(", ")}` : null],
      ["read", inputs(study, cell)],
    ]),
    (record?.warnings ?? []).map((w) => h("p", { class: "note" }, w)),
    gatesOf(cell.gates ?? []),
    requests ? timeline(study, stage, at, requests, { host, processes, gpu, slots, metrics }) : null,
    one ? [h("h2", {}, "Facts of the cell"), factList(study, stage, at, one)] : null,
    files(study, stage, at, outputs, cell),
    record ? [h("h2", {}, "Recipe and record"), h("details", {}, h("summary", {}, "Everything that decided the result, and how it was executed"), h("pre", {}, JSON.stringify(record, null, 2)))] : null);
}

function inputs(study, cell) {
  return cell.inputs?.length ? cell.inputs.map((input, i) => [i ? "; " : "", input.cells === 1 ? h("a", { href: cellLink(study, input.stage, input.first[0]) }, cellText(input.stage, input.first[0]))
    : h("a", { href: address(["study", study], { stage: input.stage }) }, `${plural(input.cells, "cell")} of ${input.stage}`)]) : null;
}

function gatesOf(list) {
  if (!list.length) return null;
  const passed = list.filter((g) => g.outcome === "pass");
  const rest = list.filter((g) => g.outcome !== "pass");
  return [h("h2", {}, "Gates"), h("p", {}, h("span", { class: "ok" }, `${passed.length} pass`), passed.length ? `: ${passed.map((g) => g.gate).join(", ")}` : ""),
    rest.map((g) => h("p", {}, h("span", { class: g.outcome === "fail" ? "bad" : "warn" }, `${g.gate} (${g.severity}): ${g.outcome}. `), g.observed, g.expected ? `; expected ${g.expected}` : ""))];
}

function factList(study, stage, at, one) {
  const pairs = one.columns.filter((c) => c.values[0] !== null).map((c) => [c.name,
    h("a", { class: "value", title: c.description, href: whyLink({ table: `${stage}.cell`, cell: at, row: 0, column: c.name }) }, `${digits(c.values[0])} ${c.unit && c.unit !== "1" ? c.unit : ""}`)]);
  return h("details", {}, h("summary", {}, plural(pairs.length, "fact")), facts(pairs));
}

function files(study, stage, at, outputs, cell) {
  if (!outputs.length) return null;
  const evidence = new Set((cell.evidence ?? []).map((e) => e.name));
  return [h("h2", {}, "What it left"), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["name", "kind", "rows", "size", "digest"].map((t, i) => h("th", { scope: "col", class: i === 2 || i === 3 ? "number" : null }, t)))),
    h("tbody", {}, outputs.map((o) => h("tr", {}, h("td", {}, h("a", { href: o.rows !== null ? address(["study", study, "data"], { table: `${stage}.${o.name}`, cell: at }) : address(["object", o.digest], { study }) }, o.name), evidence.has(o.name) ? " (evidence)" : ""),
      h("td", {}, o.media), h("td", { class: "number" }, o.rows === null ? "–" : o.rows.toLocaleString("en-US")), h("td", { class: "number" }, bytesText(o.bytes)), h("td", { class: "digest", title: o.digest }, short(o.digest)))))))];
}

// Rows of requests as the waterfall wants them, by when they were due.
export function requestRows(requests) {
  const rows = [];
  for (let i = 0; i < requests.count; i += 1) {
    const at = (name) => requests.at(`${name}_ns`, i);
    rows.push({ i, row: requests.rows[i], id: requests.at("request_id", i), attempt: requests.at("attempt", i), status: requests.at("status", i), phase: requests.at("phase", i),
      scheduled: at("scheduled"), sent: at("sent"), headers: at("headers"), first: at("first_token"), last: at("last_token"), done: at("done"), lag: at("send_lag") });
  }
  return rows.sort((a, b) => (a.scheduled ?? a.sent ?? 0) - (b.scheduled ?? b.sent ?? 0));
}

function timeline(study, stage, at, requests, others) {
  const rows = requestRows(requests);
  const times = rows.flatMap((r) => [r.scheduled, r.sent, r.done]).filter((t) => t !== null);
  if (!times.length) return null;
  let whole = [Infinity, -Infinity];
  for (const t of times) whole = [Math.min(whole[0], t), Math.max(whole[1], t)];
  const flight = { name: "in flight", unit: "requests", lines: [{ points: inFlight(rows), step: true }] };
  const lag = rows.filter((r) => r.lag !== null && r.sent !== null).map((r) => [r.sent, r.lag / 1e6]);
  const tracks = [waterfall(rows), flight, lag.length ? { name: "client send lag", unit: "ms", height: 40, lines: [{ points: lag, dots: true }] } : null, ...machine(others)].filter(Boolean);
  const under = h("div");
  const [from, to] = ["from", "to"].map((name) => h("input", { type: "number", step: "any", size: "10", "aria-label": `${name} (ms)`, onchange: typed }));
  const picture = chart(tracks, whole, { onspan: choose, label: `${rows.length} requests over time; drag, or use the arrow keys, + and −, to choose a span, 0 for all` });
  function typed() {
    const span = [Number(from.value) * 1e6, Number(to.value) * 1e6];
    if (span[1] > span[0]) choose(span);
  }
  function choose(span) {
    amend({ from: span && Math.round(span[0]), to: span && Math.round(span[1]) });
    show(span);
  }
  function show(span) {
    picture.draw(span);
    const now = span ?? whole;
    [from.value, to.value] = now.map((t) => (t / 1e6).toFixed(3));
    const inside = span ? rows.filter((r) => (r.done ?? r.sent ?? r.scheduled) >= span[0] && (r.scheduled ?? r.sent) <= span[1]) : rows;
    replace(under, ...list(study, stage, at, requests, inside, rows.length));
  }
  picture.element.addEventListener("click", (event) => {
    const box = picture.element.getBoundingClientRect();
    const y = event.clientY - box.top;
    const r = y < tracks[0].height ? rows[Math.floor((y / tracks[0].height) * rows.length)] : null;
    const t = picture.time(event);
    if (r && (r.scheduled ?? r.sent) <= t && t <= r.done) location.hash = requestLink(study, stage, at, r);
  });
  const { parameters } = here();
  show(parameters.from && parameters.to ? [Number(parameters.from), Number(parameters.to)] : null);
  return [h("h2", {}, "Requests over time"),
    requests.rows_in_all > MOST ? h("p", { class: "note" }, `The first ${MOST} of ${requests.rows_in_all.toLocaleString("en-US")} requests are shown.`) : null,
    h("div", { class: "row" }, h("label", {}, "from (ms)", from), h("label", {}, "to (ms)", to), h("button", { type: "button", onclick: () => choose(null) }, "All"),
      h("span", { class: "soft" }, "thin: due to sent; pale: to the first token; full: to the last token. Drag to choose a span.")),
    h("figure", {}, picture.element), under];
}

export function requestLink(study, stage, at, r) {
  return address(["study", study, "request", stage], { cell: at, row: r.row });
}

function list(study, stage, at, requests, inside, all) {
  const counts = new Map();
  for (const r of inside) counts.set(r.status, (counts.get(r.status) ?? 0) + 1);
  const shown = inside.slice(0, SHOWN);
  const columns = ["request_id", "phase", "status", "sent_ns", "first_token_ns", "done_ns", "output_tokens", "in_flight_at_send"].map((name) => requests.column(name)).filter(Boolean);
  const part = { ...requests, rows: shown.map((r) => r.row), columns: columns.map((c) => ({ ...c, values: shown.map((r) => c.values[r.i]) })) };
  return [h("h2", {}, `${inside.length === all ? "All" : inside.length.toLocaleString("en-US")} of ${plural(all, "request")}`),
    h("p", { class: "soft" }, [...counts].map(([status, n]) => `${n.toLocaleString("en-US")} ${status}`).join(", ")),
    tableView(asTable(part), { rowLink: (_, i) => requestLink(study, stage, at, shown[i]), link: (column, i, row) => whyLink({ table: `${stage}.requests`, cell: at, row, column: column.name }) }),
    inside.length > SHOWN ? h("p", { class: "soft" }, `and ${plural(inside.length - SHOWN, "more", "more")}; `, h("a", { href: address(["study", study, "data"], { table: `${stage}.requests`, cell: at }) }, "the whole table")) : null];
}

const points = (found, name, keep = () => true) => {
  const list = [];
  for (let i = 0; i < found.count; i += 1) {
    const [t, v] = [found.at("at_ns", i), found.at(name, i)];
    if (t !== null && typeof v === "number" && keep(i)) list.push([t, v]);
  }
  return list;
};

// The tracks of the machine and the server, as far as the cell has them.
function machine({ host, processes, gpu, slots, metrics }) {
  const tracks = [];
  const add = (name, unit, lines) => { const full = lines.filter((l) => l.points.length > 1); if (full.length) tracks.push({ name, unit, lines: full }); };
  if (slots) {
    const busy = new Map();
    for (let i = 0; i < slots.count; i += 1) busy.set(slots.at("at_ns", i), (busy.get(slots.at("at_ns", i)) ?? 0) + (slots.at("processing", i) ? 1 : 0));
    add("slots busy", "slots", [{ points: [...busy], step: true }]);
  }
  if (metrics) {
    const names = [...new Set(metrics.column("name").values)];
    const wanted = [[/running|processing/, "running"], [/waiting|deferred|queue_req/, "waiting"], [/(kv|cache).*(usage|ratio|perc)/, "KV use"]];
    for (const [pattern, name] of wanted) {
      const metric = names.find((n) => pattern.test(n) && !n.endsWith("_total"));
      if (metric) add(name, null, [{ points: points(metrics, "value", (i) => metrics.at("name", i) === metric), step: true }]);
    }
  }
  if (host) {
    add("CPU busy, steal", "share", [{ points: points(host, "cpu_busy") }, { points: points(host, "cpu_steal"), colour: "track-2" }]);
  }
  if (processes) {
    const ofRole = (role) => points(processes, "cpu", (i) => processes.at("role", i) === role);
    add("server, client CPU", "cores", [{ points: ofRole("server") }, { points: ofRole("client"), colour: "track-2" }]);
  }
  if (gpu) {
    const first = (i) => gpu.at("gpu", i) === gpu.at("gpu", 0);
    add("GPU power", "W", [{ points: points(gpu, "power_w", first) }]);
    add("GPU clock", "MHz", [{ points: points(gpu, "sm_clock_mhz", first) }]);
  }
  return tracks;
}

export const spanText = (from, to) => `${nanoseconds(from)} to ${nanoseconds(to)}`;
