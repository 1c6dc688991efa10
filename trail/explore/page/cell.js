// One cell: its requests above the tracks of the machine, on one clock.

import { address, amend, breakable, cellLink, cellText, facts, h, here, replace, select, sentence, whyLink } from "./dom.js";
import { asTable, get, isFile, table } from "./api.js";
import { figuresOf, figuresView, requestsOf } from "./figures.js";
import { byLabel, bytesText, digits, moment, nanoseconds, plural, seconds, short } from "./format.js";
import { tableView } from "./table.js";
import { csvText, download } from "./plot.js";
import { chart, cloudTrack, inFlight, isWarmup, valueAt, waterfall } from "./tracks.js";
import { kind, statusColour } from "./colour.js";

const MOST = 5000;
const SHOWN = 60;
const SAMPLES = 50000;

// What a track is called, and the metric of a server that it shows.
const SERVER = [[/(?<!max_|max_num_)(running|requests_processing)/, "server: running", "requests"], [/waiting|deferred|queue_req|queue_size/, "server: waiting", "requests"], [/(kv|cache|token).*(usage|ratio|perc)/, "KV use", "share"]];
const metricsOf = (found) => {
  const names = [...new Set(found.column("name").values)];
  return SERVER.map(([pattern, title, unit]) => [names.find((n) => pattern.test(n) && !/_total$|_bucket$|_sum$|_count$/.test(n)), title, unit]).filter(([name]) => name);
};

// The tables of the tracks, and how the rest of a long one is read: only what the tracks show.
const TRACKED = {
  host_telemetry: (read) => read({ columns: "at_ns,cpu_busy,cpu_steal,runnable,frequency_mhz,processors,memory_used_bytes" }),
  server_host_telemetry: (read) => read({ columns: "at_ns,source,cpu_busy,cpu_steal,runnable,frequency_mhz,memory_used_bytes" }),
  process_telemetry: (read) => read({ columns: "at_ns,role,cpu" }),
  gpu_telemetry: (read) => read({ columns: "at_ns,gpu,power_w,sm_clock_mhz,sm_utilisation,temperature_c,memory_used_bytes,foreign_processes" }),
  slots: (read) => read({ columns: "at_ns,processing" }),
  // Of many metrics, three have a track. Each has rows from the first scrape on.
  server_metrics: async (read, found) => {
    const parts = await Promise.all(metricsOf(found).map(([name]) => read({ "eq.name": name })));
    if (!parts.length) return { ...found, rows_in_all: found.count };
    const columns = found.columns.map((c) => ({ ...c, values: parts.flatMap((part) => part.column(c.name).values) }));
    return asTable({ ...found, columns, rows: parts.flatMap((part) => part.rows), rows_in_all: parts.reduce((sum, part) => sum + part.rows_in_all, 0) });
  },
};

export async function cellView(main, study, stage) {
  const { parameters } = here();
  const at = parameters.cell ?? "";
  const cell = await get(["studies", study, "cell"], { stage, cell: at });
  const outputs = [...(cell.outputs ?? []), ...(cell.evidence ?? [])];
  const has = (name) => outputs.some((o) => o.name === name);
  const unread = [...(cell.unread ?? [])];
  // A file leaves out tables on purpose, and reports that above.
  const miss = (name) => (error) => { if (!isFile()) unread.push(`${name}: ${sentence(error)}`); return null; };
  const load = (name) => (has(name) ? table(study, `${stage}.${name}`, { cell: at, from: 0, to: MOST }).catch(miss(name)) : null);
  const [requests, one, ...first] = await Promise.all(["requests", "cell", ...Object.keys(TRACKED)].map(load));
  const partial = [];
  const rest = async (found, i) => {
    if (!found || found.rows_in_all <= found.count) return found;
    const name = Object.keys(TRACKED)[i];
    const more = isFile() ? found : await TRACKED[name]((asked) => table(study, `${stage}.${name}`, { cell: at, from: 0, to: SAMPLES, ...asked }), found).catch(() => found);
    if (more.rows_in_all > more.count) partial.push(`the first ${more.count.toLocaleString("en-US")} of ${more.rows_in_all.toLocaleString("en-US")} rows of ${name}`);
    return more;
  };
  const [host, server, processes, gpu, slots, metrics] = await Promise.all(first.map(rest));
  const record = cell.record;
  const excluding = cell.status === "ok" ? (cell.gates ?? []).filter((g) => g.outcome === "fail" && g.severity !== "warn") : [];
  replace(main, h("h1", {}, breakable(cellText(stage, at))), siblings(study, stage, at),
    cell.status === "ok" ? null : h("p", { class: "error" }, `${cell.status}${cell.reason ? `: ${cell.reason}` : ""}. Its outputs are evidence, and enter no statistic.`),
    excluding.length ? h("p", { class: "error" }, `This cell enters no statistic: ${excluding.map((g) => `gate ${g.gate}: ${g.observed}`).join("; ")}.`) : null,
    facts([
      ["state", h("span", { class: cell.status !== "ok" ? "bad" : excluding.length ? "warn" : "ok" }, excluding.length ? "ok, but excluded by a gate" : cell.status)],
      ["measured", cell.imported && `${cell.imported.measured ? moment(cell.imported.measured) : "at an unknown time"}; its rows were imported${cell.imported.tool ? ` from ${cell.imported.tool}` : ""}`],
      ["executed", record && !cell.imported ? h("span", { title: record.started }, `${moment(record.started)}, took ${seconds(record.seconds)}, number ${record.order} in its run`) : null],
      ["record", cell.record_digest && h("span", { class: "digest", title: cell.record_digest }, short(cell.record_digest))],
      ["earlier", cell.earlier?.length ? `${plural(cell.earlier.length, "execution")} whose result is not in use: ${cell.earlier.map((e) => `${e.status} ${short(e.record)}`).join(", ")}` : null],
      ["client", one && one.has("wake_lag_p50") && one.at("wake_lag_p50", 0) !== null ? `woke ${digits(one.at("wake_lag_p50", 0))} ms late at the median, ${digits(one.at("wake_lag_p99", 0))} ms at p99, ${digits(one.at("wake_lag_max", 0))} ms at most` : null],
      ["server", metrics ? saturation(metrics) : null],
      ["other programs", host && processes ? foreignLoad(host, ofOthers(host, processes)) : null],
      ["read", inputs(study, cell)],
    ]),
    unread.map((why) => h("p", { class: "note" }, `A part of the cell cannot be read: ${why}.`)),
    (record?.warnings ?? []).map((w) => h("p", { class: "note" }, w)),
    gatesOf(cell.gates ?? []),
    partial.length ? h("p", { class: "note" }, `The tracks show only ${partial.join(", ")}.`) : null,
    requests ? timeline(study, stage, at, requests, { host, server, processes, gpu, slots, metrics }) : null,
    one ? [h("h2", {}, "Facts of the cell"), factList(study, stage, at, one)] : null,
    files(study, stage, at, outputs, cell),
    record ? [h("h2", {}, "Recipe and record"), h("details", {}, h("summary", {}, "Everything that determined the result, and how it was executed"), h("pre", {}, JSON.stringify(record, null, 2)))] : null);
}

// The other cells of the stage: one choice for each axis, and the comparison of this cell's label with another.
function siblings(study, stage, at) {
  // The list of all cells is long, and the rest of the page does not wait for it.
  const row = h("div", { class: "row siblings" });
  const show = ({ stages }) => {
    const own = stages.find((s) => s.name === stage);
    const cell = own?.cells.find((c) => c.at === at);
    if (!cell) return;
    const apart = (c) => c.labels.filter((label, i) => label !== cell.labels[i]).length;
    const choices = own.axes.map((axis, i) => {
      const labels = [...new Set(own.cells.map((c) => c.labels[i]))].sort(byLabel);
      // Where no cell has the label and otherwise the same ones, the choice leads to the nearest cell with it.
      const nearest = (label) => own.cells.filter((c) => c.labels[i] === label).reduce((best, c) => (apart(c) < apart(best) ? c : best));
      return labels.length > 1 ? select(axis, labels.map((label) => [String(label), String(label)]), String(cell.labels[i]), (text) => { location.hash = cellLink(study, stage, nearest(labels.find((l) => String(l) === text)).at); }) : null;
    });
    const axis = choices.findIndex((choice) => choice !== null);
    if (axis >= 0) replace(row, choices, own.class === "measurement" ? h("a", { href: address(["study", study, "compare"], { stage, axis: own.axes[axis], a: String(cell.labels[axis]) }) }, "Compare") : null);
  };
  get(["studies", study, "cells"]).then(show).catch(() => {});
  return row;
}

function inputs(study, cell) {
  return cell.inputs?.length ? cell.inputs.map((input, i) => [i ? "; " : "", input.cells === 1 ? h("a", { href: cellLink(study, input.stage, input.first[0]) }, cellText(input.stage, input.first[0]))
    : h("a", { href: address(["study", study], { stage: input.stage }) }, `${plural(input.cells, "cell")} of ${input.stage}`)]) : null;
}

function gatesOf(list) {
  if (!list.length) return null;
  const passed = list.filter((g) => g.outcome === "pass");
  const failed = list.filter((g) => g.outcome === "fail");
  const open = list.filter((g) => g.outcome !== "pass" && g.outcome !== "fail");
  const told = (gates) => gates.map((g) => h("p", {}, h("span", { class: g.outcome === "fail" && g.severity !== "warn" ? "bad" : "warn" }, `${g.gate}: ${g.outcome === "fail" ? (g.severity === "warn" ? "warning" : "fail, which excludes the cell") : g.outcome}. `), g.observed, g.expected ? `; expected ${g.expected}` : ""));
  return [h("h2", {}, "Gates"), h("p", {}, h("span", { class: "ok" }, `${passed.length} pass`), passed.length ? `: ${passed.map((g) => g.gate).join(", ")}` : ""), told(failed),
    // A gate that lacks rows says nothing about the cell: its reason is one click away.
    open.length ? h("details", {}, h("summary", {}, h("span", { class: "warn" }, `${open.length} not judged`), `: ${open.map((g) => g.gate).join(", ")}`), told(open)) : null];
}

function factList(study, stage, at, one) {
  const pairs = one.columns.filter((c) => c.values[0] !== null).map((c) => [c.name,
    h("a", { class: "value", title: c.description, href: whyLink({ table: `${stage}.cell`, cell: at, row: 0, column: c.name }) }, `${digits(c.values[0])} ${c.unit && c.unit !== "1" ? c.unit : ""}`)]);
  return h("details", {}, h("summary", {}, plural(pairs.length, "fact")), facts(pairs));
}

function files(study, stage, at, outputs, cell) {
  if (!outputs.length) return null;
  const evidence = new Set((cell.evidence ?? []).map((e) => e.name));
  return [h("h2", {}, "Evidence"), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["name", "kind", "rows", "size", "digest"].map((t, i) => h("th", { scope: "col", class: i === 2 || i === 3 ? "number" : null }, t)))),
    h("tbody", {}, outputs.map((o) => h("tr", {}, h("td", {}, h("a", { href: o.rows !== null ? address(["study", study, "data"], { table: `${stage}.${o.name}`, cell: at }) : address(["object", o.digest], { study }) }, o.name), evidence.has(o.name) ? " (evidence)" : ""),
      h("td", {}, o.media), h("td", { class: "number" }, o.rows === null ? "–" : o.rows.toLocaleString("en-US")), h("td", { class: "number" }, bytesText(o.bytes)), h("td", { class: "digest", title: o.digest }, short(o.digest)))))))];
}

// Rows of requests in the form that the waterfall needs, by the time they were due.
export function requestRows(requests) {
  const rows = [];
  for (let i = 0; i < requests.count; i += 1) {
    const at = (name) => requests.at(`${name}_ns`, i);
    rows.push({ i, row: requests.rows[i], id: requests.at("request_id", i), attempt: requests.at("attempt", i), status: requests.at("status", i), phase: requests.at("phase", i),
      scheduled: at("scheduled"), sent: at("sent"), headers: at("headers"), first: at("first_token"), last: at("last_token"), done: at("done"), lag: at("send_lag"), tokens: requests.at("output_tokens", i) });
  }
  return rows.sort((a, b) => (a.scheduled ?? a.sent ?? 0) - (b.scheduled ?? b.sent ?? 0));
}

// The contents of a span of time: everything below the tracks shows that span.
function timeline(study, stage, at, requests, others) {
  return requests.rows_in_all > requests.count ? largeTimeline(study, stage, at, requests, others) : smallTimeline(study, stage, at, requests, others);
}

// The controls of a span, the picture, and the figures of the span below them.
function spanned(whole, tracks, { label, onclick = null, show }) {
  const [from, to] = ["from", "to"].map((name) => h("input", { type: "number", step: "any", size: "10", "aria-label": `${name} (ms)`, onchange: typed }));
  const readout = h("figcaption", { class: "readout screen" }, POINT);
  const onpoint = (place) => { readout.textContent = place ? reading(tracks, ...place) : POINT; };
  const picture = chart(tracks, whole, { onspan: choose, onpoint, label: `${label}; drag, or use the arrow keys, + and −, to choose a span, 0 for all` });
  function typed() {
    const span = [Number(from.value) * 1e6, Number(to.value) * 1e6];
    if (span[1] > span[0]) choose(span);
  }
  function choose(span) {
    amend({ from: span && Math.round(span[0]), to: span && Math.round(span[1]) });
    draw(span);
  }
  function draw(span) {
    picture.draw(span);
    [from.value, to.value] = (span ?? whole).map((t) => (t / 1e6).toFixed(3));
    show(span);
  }
  if (onclick) picture.element.addEventListener("click", (event) => onclick(event.clientY - picture.element.getBoundingClientRect().top, picture.time(event)));
  const { parameters } = here();
  const asked = [Number(parameters.from ?? NaN), Number(parameters.to ?? NaN)];
  draw(asked[1] > asked[0] ? asked : null);
  return [h("div", { class: "row" }, h("label", {}, "from (ms)", from), h("label", {}, "to (ms)", to), h("button", { type: "button", onclick: () => choose(null) }, "All")), h("figure", {}, picture.element, readout)];
}

const POINT = "Point at the picture to read the values of a moment.";

// The values of all tracks at a moment, and the request that the pointer is at.
function reading(tracks, t, y) {
  let top = 0;
  const parts = [];
  for (const track of tracks) {
    if (track.rows && y >= top && y < top + track.height) {
      const r = track.rows[Math.floor(((y - top) / track.height) * track.rows.length)];
      if (r) parts.push(`request ${r.id} ${r.status}${isWarmup(r) ? ", warm-up" : ""}${r.sent !== null && r.first !== null ? `, first token after ${nanoseconds(r.first - r.sent)}` : ""}${r.sent !== null && r.done !== null ? `, done after ${nanoseconds(r.done - r.sent)}` : ""} (click opens it)`);
    }
    top += (track.height ?? 56) + 8;
    for (const line of (track.lines ?? []).filter((l) => !l.dots)) {
      const value = valueAt(line, t);
      if (value !== null) parts.push(`${line.words ?? line.name ?? track.name} ${digits(value, 3)}${track.unit && track.unit !== "1" ? ` ${track.unit}` : ""}`);
    }
  }
  return `${nanoseconds(t)}: ${parts.join("; ")}`;
}

// The colours of the statuses that the requests have, and the ground of the warm-up.
function statusLegend(rows) {
  const warm = rows.filter(isWarmup).length;
  const counts = new Map();
  for (const r of rows) counts.set(r.status, (counts.get(r.status) ?? 0) + 1);
  return h("div", { class: "legend" }, [...counts].map(([status, n]) => h("span", {}, h("span", { class: "chip", style: { background: `var(--${statusColour(status)})` } }), `${n.toLocaleString("en-US")} ${status}`)),
    warm ? h("span", {}, h("span", { class: "chip", style: { background: "var(--mark)" } }), `${warm.toLocaleString("en-US")} of warm-up, which enter no figure`) : null);
}

function smallTimeline(study, stage, at, requests, others) {
  const rows = requestRows(requests);
  let whole = [Infinity, -Infinity];
  for (const r of rows) for (const t of [r.scheduled, r.sent, r.done]) if (t !== null) whole = [Math.min(whole[0], t), Math.max(whole[1], t)];
  if (!(whole[1] > whole[0])) return null;
  const flight = { name: "in flight", unit: "requests", lines: [{ points: inFlight(rows), step: true }] };
  const lag = rows.filter((r) => r.lag !== null && r.sent !== null).map((r) => [r.sent, r.lag / 1e6]);
  const tracks = [waterfall(rows), flight, lag.length ? { name: "client send lag", unit: "ms", height: 40, lines: [{ points: lag, dots: true }] } : null, ...machine(others)].filter(Boolean);
  const [under, figures] = [h("div"), h("div")];
  // The figures come after the picture, which needs only the rows.
  let known = null;
  let shown = null;
  const tell = () => { if (known) figuresView(figures, known.whole, shown && figuresOf(known.requests, shown, known.whole)); };
  get(["studies", study, "activity"], { stage, cell: at }).then((all) => { if (all.single && all.figures) { known = { whole: all.figures, requests: requestsOf(all.single, rows) }; tell(); } })
    .catch((error) => replace(figures, h("p", { class: "note" }, `The figures are missing: ${sentence(error)}.`)));
  const show = (span) => {
    shown = span;
    tell();
    const inside = span ? rows.filter((r) => (r.done ?? r.sent ?? r.scheduled) >= span[0] && (r.scheduled ?? r.sent) <= span[1]) : rows;
    replace(under, ...list(study, stage, at, requests, inside, rows.length));
  };
  const open = requestAt(study, stage, at, tracks[0]);
  return [h("h2", {}, "Requests over time"), h("p", { class: "soft" }, "Thin: due to sent; pale: to the first token; full: to the last token; ticks: the head of the answer, and its end. Each track below begins at zero. ", h("span", { class: "screen" }, "Drag to choose a span; everything below then also shows that span.")), statusLegend(rows),
    spanned(whole, tracks, { label: `${rows.length} requests over time`, onclick: open, show }), figures, under];
}

// Opens the request of a waterfall that a click at a height and a moment meets.
function requestAt(study, stage, at, { rows, height }) {
  return (y, t) => {
    const r = y < height ? rows[Math.floor((y / height) * rows.length)] : null;
    if (r && (r.scheduled ?? r.sent) <= t && t <= r.done) location.hash = requestLink(study, stage, at, r);
  };
}

// A cell with more requests than a page can draw: the server reports the activity in a span, and lists its requests if
// they are few.
function largeTimeline(study, stage, at, requests, others) {
  const box = h("div", {}, h("p", { class: "soft" }, "Reading…"));
  const [under, figures] = [h("div"), h("div")];
  let asked = 0;
  let whole = null;
  const detail = async (span) => {
    const mine = asked += 1;
    const found = await get(["studies", study, "activity"], { stage, cell: at, ...(span && { from: Math.round(span[0]), to: Math.round(span[1]) }) });
    if (mine !== asked) return;
    figuresView(figures, whole, span && found.figures);
    const failed = found.failed.reduce((a, b) => a + b, 0);
    const told = h("p", {}, `${found.requests.toLocaleString("en-US")} of ${plural(found.requests_in_all, "request")} in the span, ${failed.toLocaleString("en-US")} of them failed.`);
    const one = found.single ?? found.slowest;
    const value = (name, i) => one[name][i];
    const rows = one.row.map((row, i) => ({ i, row, id: value("request_id", i), attempt: value("attempt", i), status: value("status", i), phase: value("phase", i), scheduled: value("scheduled_ns", i), sent: value("sent_ns", i), headers: value("headers_ns", i), first: value("first_token_ns", i), last: value("last_token_ns", i), done: value("done_ns", i), lag: value("send_lag_ns", i) }))
      .sort((a, b) => (a.scheduled ?? a.sent ?? 0) - (b.scheduled ?? b.sent ?? 0));
    const columns = { column: (name) => (one[name] ? { name, unit: null, values: one[name] } : null) };
    if (!found.single) {
      const slowest = { title: "The slowest requests", usual: rows.some((r) => r.first !== null) ? "ttft" : "request_latency", told: "The answered measured requests that were sent in the span: the 60 slowest to the first token, and the 60 slowest to the end" };
      replace(under, told, h("p", { class: "soft" }, "A span of at most 5,000 requests lists them and draws each."), ...(rows.length ? list(study, stage, at, columns, rows, found.requests_in_all, slowest) : []));
      return;
    }
    const bars = waterfall(rows);
    const own = chart([bars], found.span, { onspan: () => {}, label: `${rows.length} requests of the span` });
    const open = requestAt(study, stage, at, bars);
    own.element.addEventListener("click", (event) => open(event.clientY - own.element.getBoundingClientRect().top, own.time(event)));
    replace(under, statusLegend(rows), h("figure", {}, own.element), ...list(study, stage, at, columns, rows, found.requests_in_all));
    own.draw(null);
  };
  get(["studies", study, "activity"], { stage, cell: at }).then((all) => {
    whole = all.figures;
    const line = (values) => [{ points: all.at_ns.map((t, i) => [t, values[i]]), step: true }];
    const tracks = [{ name: "waiting for a token", unit: "requests", lines: line(all.waiting) }, { name: "tokens arriving", unit: "requests", lines: line(all.running) }, cloudTrack(all), all.failed.some((n) => n) ? { name: "failed", unit: "requests", height: 36, lines: line(all.failed) } : null, ...machine(others)].filter(Boolean);
    replace(box, spanned(all.whole, tracks, { label: `${all.requests_in_all} requests over time`, show: (span) => detail(span).catch((e) => replace(under, h("p", { class: "note" }, sentence(e)))) }));
  }).catch((error) => replace(box, h("p", { class: "note" }, `The cell has ${requests.rows_in_all.toLocaleString("en-US")} requests: ${sentence(error)}.`)));
  return [h("h2", {}, "Requests over time"), h("p", { class: "soft" }, `${requests.rows_in_all.toLocaleString("en-US")} requests: levels at 600 moments, and each request of a span that is short enough. `, h("span", { class: "screen" }, "Drag to choose a span; everything below then also shows that span.")), box, figures, under];
}

export function requestLink(study, stage, at, r) {
  return address(["study", study, "request", stage], { cell: at, row: r.row });
}

// The requests of a span. A part of them has a `title`, and `usual`: the column by which it is sorted at first.
function list(study, stage, at, requests, inside, all, { title = null, usual = null, told = null } = {}) {
  const counts = new Map();
  for (const r of inside) counts.set(r.status, (counts.get(r.status) ?? 0) + 1);
  const known = (c) => c && (c.name === "cached_prompt_tokens" ? c.values.some((v) => v > 0) : c.values.some((v) => v !== null));
  const own = ["request_id", "phase", "status", "in_flight_at_send", "prompt_tokens", "cached_prompt_tokens", "output_tokens"].map((name) => requests.column(name)).filter(known).map((c) => ({ ...c, of: (r) => c.values[r.i] }));
  // Times of a request count from when it was sent, so that slow requests can be found.
  const since = (name, description, of) => ({ name, unit: "ms", description, of: (r) => { const ns = of(r); return ns === null ? null : ns / 1e6; }, derived: true });
  const span = (from, to) => (from !== null && to !== null ? to - from : null);
  const columns = [...own.slice(0, 3), since("sent", "when it was sent, on the clock of the tracks", (r) => r.sent), since("send_lag", "due to sent: the client's own delay", (r) => r.lag), since("ttft", "sent to first token", (r) => span(r.sent, r.first)), since("e2e_latency", "sent to last token, as the metric e2e_latency_ms", (r) => span(r.sent, r.last)), since("request_latency", "sent to done", (r) => span(r.sent, r.done)), ...own.slice(3)];
  const box = h("div");
  let ordered = inside;
  const view = () => {
    const { sort: name, order } = here().parameters;
    const sort = columns.some((c) => c.name === name) ? { column: name, descending: order === "desc" } : usual ? { column: usual, descending: true } : null;
    const column = sort && columns.find((c) => c.name === sort.column);
    ordered = column ? [...inside].sort((a, b) => { const [p, q] = [column.of(a), column.of(b)]; return p === null || q === null ? (p === null) - (q === null) : byLabel(p, q) * (sort.descending ? -1 : 1); }) : inside;
    const shown = ordered.slice(0, SHOWN);
    // A latency starts with the slowest; a third click returns to the order of time.
    const first = (c) => (columns.find((k) => k.name === c).derived ? "desc" : "asc");
    const onsort = (c) => {
      amend(sort?.column !== c ? { sort: c, order: first(c) } : (order ?? "asc") === first(c) ? { order: first(c) === "desc" ? "asc" : "desc" } : { sort: null, order: null });
      view();
      box.querySelectorAll("th button")[columns.findIndex((k) => k.name === c)]?.focus({ preventScroll: true });
    };
    const part = { table: `${stage}.requests`, rows: shown.map((r) => r.row), columns: columns.map((c) => ({ ...c, values: shown.map((r) => c.of(r)) })) };
    replace(box, tableView(asTable(part), { sort, onsort, rowLink: (_, i) => (isFile() && shown[i].row >= MOST ? null : requestLink(study, stage, at, shown[i])), link: (column, i, row) => (column.derived ? null : whyLink({ table: `${stage}.requests`, cell: at, row, column: column.name })) }));
  };
  view();
  const save = () => download(csvText(["row", ...columns.map((c) => (c.unit && c.unit !== "1" ? `${c.name} (${c.unit})` : c.name))], ordered.map((r) => [r.row, ...columns.map((c) => c.of(r))])), `${stage}-requests.csv`, "text/csv");
  return [h("h2", {}, title ?? `${inside.length === all ? "All" : inside.length.toLocaleString("en-US")} of ${plural(all, "request")}`),
    h("p", { class: "soft" }, told ?? [...counts].map(([status, n]) => `${n.toLocaleString("en-US")} ${status}`).join(", "), h("span", { class: "screen" }, ". Click a heading to sort, for instance ttft for the slowest first.")),
    box, inside.length ? h("div", { class: "row" }, h("button", { type: "button", onclick: save }, "Save as CSV")) : null,
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

const GIB = 1024 ** 3;
const scaled = (list, by) => list.map(([t, v]) => [t, v / by]);
// Only lines that say something: a level of zero is worth a track only for what should be zero.
const some = (list) => (list.some(([, v]) => v !== 0) ? list : []);

// The processors that programs other than the server and the client kept busy: what is busy, less what those two use.
function ofOthers(host, processes) {
  const own = new Map();
  for (const [t, v] of points(processes, "cpu")) own.set(t, (own.get(t) ?? 0) + v);
  const used = [...own].sort((a, b) => a[0] - b[0]);
  const count = host.has("processors") ? host.column("processors").values.find((n) => n > 0) : null;
  return count && used.length ? points(host, "cpu_busy").map(([t, share]) => [t, Math.max(0, share * count - valueNear(used, t))]) : [];
}

// The same in words, because it decides whether a result can be trusted.
function foreignLoad(host, others) {
  if (!others.length) return null;
  const values = others.map(([, v]) => v);
  const count = host.column("processors").values.find((n) => n > 0);
  return `used ${digits(values.reduce((a, b) => a + b, 0) / values.length, 3)} of ${plural(count, "processor")} on average, ${digits(Math.max(...values), 3)} at most`;
}

// The value sampled closest to a moment, of samples in order of time.
function valueNear(list, t) {
  let [low, high] = [0, list.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][0] < t) low = middle + 1; else high = middle;
  }
  const before = list[low - 1];
  return before && t - before[0] < Math.abs(list[low][0] - t) ? before[1] : list[low]?.[1] ?? null;
}

// The tracks of the machine and the server, as far as the cell has them.
function machine({ host, server, processes, gpu, slots, metrics }) {
  const tracks = [];
  const add = (name, unit, lines) => { const full = lines.filter((l) => l.points.length > 1); if (full.length) tracks.push({ name, unit, lines: full }); };
  if (slots) {
    const busy = new Map();
    for (let i = 0; i < slots.count; i += 1) busy.set(slots.at("at_ns", i), (busy.get(slots.at("at_ns", i)) ?? 0) + (slots.at("processing", i) ? 1 : 0));
    add("slots busy", "slots", [{ points: [...busy], step: true }]);
  }
  if (metrics) {
    for (const [metric, name, unit] of metricsOf(metrics)) {
      // Several engines behind one address have one number of requests together, but each its own share of a cache.
      const fullest = unit === "share" && new Set(metrics.column("labels")?.values.filter((_, i) => metrics.at("name", i) === metric)).size > 1;
      add(fullest ? `${name}, the fullest` : name, unit, [{ points: overLabels(metrics, metric, unit === "share" ? Math.max : (a, b) => a + b), step: true }]);
    }
  }
  // With a server on another machine, each machine has its own tracks, under its name.
  const ofMachine = (found, whose, keep) => {
    const of = (text) => (whose ? `${whose}: ${text}` : text);
    const line = (column) => points(found, column, keep);
    add(of("CPU busy"), "share", [{ name: of("CPU busy"), points: line("cpu_busy") }, { name: "steal", points: line("cpu_steal"), colour: "track-2" }]);
    add(of("threads"), "running", [{ points: line("runnable") }]);
    add(of("CPU clock"), "MHz", [{ points: line("frequency_mhz") }]);
    add(of("memory"), "GiB used", [{ points: scaled(line("memory_used_bytes"), GIB) }]);
  };
  for (const source of server?.count ? [...new Set(server.column("source").values)] : []) ofMachine(server, source, (i) => server.at("source", i) === source);
  if (host) ofMachine(host, server?.count ? "client" : "");
  if (processes) {
    // A server of several processes uses what they use together.
    const ofRole = (role) => {
      const at = new Map();
      for (const [t, v] of points(processes, "cpu", (i) => processes.at("role", i) === role)) at.set(t, (at.get(t) ?? 0) + v);
      return [...at];
    };
    add("CPU of server, client", "cores", [{ name: "server CPU", points: ofRole("server") }, { name: "client", points: ofRole("client"), colour: "track-2" }]);
    if (host) add("other programs", "cores", [{ points: ofOthers(host, processes) }]);
  }
  if (gpu) {
    const each = [...new Set(gpu.column("gpu").values)].sort((a, b) => a - b).slice(0, 8);
    const lines = (what, column, change = (list) => list) => each.map((id, k) => ({ ...(each.length > 1 ? { key: String(id), fill: kind(k).fill, words: `GPU ${id} ${what}` } : {}), points: change(points(gpu, column, (i) => gpu.at("gpu", i) === id)) }));
    add("GPU power", "W", lines("power", "power_w"));
    add("GPU clock", "MHz", lines("clock", "sm_clock_mhz"));
    add("GPU busy", "share", lines("busy", "sm_utilisation"));
    add("GPU memory", "GiB used", lines("memory", "memory_used_bytes", (list) => scaled(list, GIB)));
    add("GPU temperature", "°C", lines("temperature", "temperature_c"));
    add("others on the GPU", "processes", lines("others", "foreign_processes", some));
  }
  return tracks;
}

// Whether requests waited in the server: its own counts, in words.
function saturation(metrics) {
  const of = (title) => { const found = metricsOf(metrics).find(([, name]) => name === title); return found ? overLabels(metrics, found[0], (a, b) => a + b).map(([, v]) => v) : []; };
  const [running, waiting] = [of("server: running"), of("server: waiting")];
  if (!waiting.length) return null;
  const late = waiting.filter((v) => v > 0).length;
  return `${running.length ? `ran up to ${digits(Math.max(...running))} at once; ` : ""}${late ? `at ${late} of ${plural(waiting.length, "sample")} requests waited in it, up to ${digits(Math.max(...waiting))}` : `no request waited in it at any of ${plural(waiting.length, "sample")}`}`;
}

// A metric of the server over its labels, for instance over engines behind one address.
function overLabels(metrics, name, join) {
  const at = new Map();
  for (let i = 0; i < metrics.count; i += 1) if (metrics.at("name", i) === name) at.set(metrics.at("at_ns", i), join(at.get(metrics.at("at_ns", i)) ?? 0, metrics.at("value", i)));
  return [...at].sort((a, b) => a[0] - b[0]);
}

