// Figures of a span of time in a cell, beside those of the whole cell: number of requests, output, latencies and their
// distributions. The server sends the latencies of each request, or the figures themselves if there are many requests.

import { h, replace } from "./dom.js";
import { columnWords, digits, plural, quantileOf } from "./format.js";
import { plotOf } from "./plot.js";

const SPAN_LATENCIES = ["ttft_ms", "tpot_ms", "e2e_latency_ms"];
const QUANTILES = [["p50", 0.5], ["p95", 0.95], ["p99", 0.99]];

// The figures of a span from its requests: { sent, done, tokens, status, measured, latencies }. They cover the requests
// sent in the span and, for output, those that ended in it. Output is per second of the measured window in the span: no
// measured request runs during the warm-up.
export function figuresOf(rows, span, whole) {
  const inside = (t) => t !== null && t >= span[0] && t <= span[1];
  const measured = rows.filter((r) => r.measured);
  const sent = measured.filter((r) => inside(r.sent));
  const ok = sent.filter((r) => r.status === "ok");
  const tokens = measured.filter((r) => r.status === "ok" && inside(r.done)).reduce((sum, r) => sum + (r.tokens ?? 0), 0);
  const latencies = whole.latencies.map(({ name, unit, definition }) => {
    const values = ok.map((r) => r.latencies[name]).filter((v) => v !== null && v !== undefined).sort((a, b) => a - b);
    const quantiles = Object.fromEntries(QUANTILES.map(([p, q]) => [p, quantileOf(values, q)]));
    return { name, unit, definition, n: values.length, within: 0, ...quantiles, points: values.map((v, i) => [v, i + 1]) };
  });
  const window = whole.window_ns && [Math.max(span[0], whole.window_ns[0]), Math.min(span[1], whole.window_ns[1])];
  return { sent: sent.length, failed: sent.length - ok.length, output_tokens: tokens, output_rate: window && window[1] > window[0] ? tokens / ((window[1] - window[0]) / 1e9) : null, latencies };
}

// The requests of an `activity` answer in the form that `figuresOf` needs; a file keeps only the fields that their rows
// lack.
export function requestsOf(single, rows) {
  const byRow = new Map(rows.map((r) => [r.row, r]));
  return single.row.map((row, i) => {
    const own = byRow.get(row);
    const value = (name, known) => single[name]?.[i] ?? known ?? null;
    return { sent: value("sent_ns", own?.sent), done: value("done_ns", own?.done), tokens: value("output_tokens", own?.tokens), status: value("status", own?.status),
      measured: single.measured[i], latencies: Object.fromEntries(SPAN_LATENCIES.map((name) => [name, single[name][i]])) };
  });
}

// A quantile is not printed if too few values bound it on both sides, as in the tables of results.
const bounded = (q, n) => 1 - q ** n >= 0.975 && 1 - (1 - q) ** n >= 0.975;

export function figuresView(element, whole, part) {
  const columns = part ? [["the span", part], ["the whole cell", whole]] : [["the whole cell", whole]];
  const row = (name, of, title) => h("tr", {}, h("th", { scope: "row", title }, name), columns.map(([, f]) => h("td", { class: "number" }, of(f))));
  const latency = (f, name) => f.latencies.find((l) => l.name === name);
  const known = whole.latencies.filter((l) => l.n > 0);
  const rows = [row("measured requests sent", (f) => f.sent.toLocaleString("en-US")), row("of these failed", (f) => f.failed.toLocaleString("en-US")),
    row("output of requests that ended (tok/s)", (f) => digits(f.output_rate), "output tokens of the measured ok requests that ended in the span ÷ the part of the measured window in it, from the first measured request sent to the last one done"),
    known.flatMap((l) => QUANTILES.map(([p, q]) => row(`${columnWords(l.name)} ${p} (${l.unit})`, (f) => { const own = latency(f, l.name); return own && bounded(q, own.n) ? digits(own[p]) : "–"; }, l.definition)))];
  const unsure = columns.some(([, f]) => f.latencies.some((l) => l.n > 0 && QUANTILES.some(([, q]) => !bounded(q, l.n))));
  const rough = columns.flatMap(([, f]) => f.latencies.map((l) => l.within)).reduce((a, b) => Math.max(a, b), 0);
  const width = Math.max(260, Math.min(460, ((element.clientWidth || 900) - 24) / Math.max(1, Math.min(known.length, Math.floor((element.clientWidth || 900) / 290)))));
  const curve = (l) => plotOf([{ lines: [...(part ? [{ series: 1, points: shares(latency(part, l.name)), step: true }] : []), { series: 0, points: shares(l), step: true, opacity: part ? 0.6 : 1 }] }],
    { x: { label: `${columnWords(l.name)} (${l.unit}), log`, log: true }, y: { label: "share of requests" }, names: part ? [{ series: 1, text: "the span" }, { series: 0, text: "the whole cell" }] : [], width, height: 240, label: `Distribution of ${columnWords(l.name)}${part ? " in the span and" : ""} in the whole cell, ${plural(l.n, "request")}` });
  replace(element, h("h2", {}, part ? "Figures of the span" : "Figures of the cell"),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), columns.map(([name]) => h("th", { scope: "col", class: "number" }, name)))), h("tbody", {}, rows))),
    h("p", { class: "soft" }, "Latencies of the measured requests that were sent then and answered. Output counts a request when it ends, per second of the measured window: a span shorter than a request may have none.", unsure ? " A dash: too few requests to bound that quantile." : "", rough ? ` Many requests: values are within ${digits(rough * 100)} %.` : ""),
    h("div", { class: "curves" }, known.map((l) => h("div", { class: "plot" }, curve(l)))));
}

const shares = (l) => (l ? l.points.filter(([v]) => v > 0).map(([v, rank]) => [v, rank / l.n]) : []);
