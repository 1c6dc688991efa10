// One request: its phases, its chunks with the gaps between them, its prompt, and the engine's log of that time.

import { breakable, cellLink, cellText, facts, h, here, ink, replace, sentence, whyLink } from "./dom.js";
import { asTable, get, objectText, table } from "./api.js";
import { digits, nanoseconds, plural, quantileOf, short } from "./format.js";
import { requestLink } from "./cell.js";
import { tableView } from "./table.js";
import { chart } from "./tracks.js";

const SECOND = 1e9;

export async function requestView(main, study, stage) {
  const { parameters } = here();
  const at = parameters.cell ?? "";
  const row = parameters.id === undefined ? Number(parameters.row ?? 0) : await rowOf(study, stage, at, parameters);
  const cell = await get(["studies", study, "cell"], { stage, cell: at });
  const outputs = [...(cell.outputs ?? []), ...(cell.evidence ?? [])];
  const has = (name) => outputs.find((o) => o.name === name);
  // The whole page that the cell's view requested is already loaded, and a file contains no other.
  const page = await table(study, `${stage}.requests`, { cell: at, from: 0, to: 5000 });
  const requests = row < page.count ? page : await table(study, `${stage}.requests`, { cell: at, from: row, to: row + 1 });
  const i = requests.rows.indexOf(row);
  if (i < 0) throw new Error(`the cell has no request row ${row}`);
  const value = (name) => requests.at(name, i);
  const id = value("request_id");
  const missing = [];
  const mine = (name, more = {}) => (has(name) ? table(study, `${stage}.${name}`, { cell: at, ...more }).catch((error) => { missing.push(sentence(error)); return null; }) : null);
  const [chunks, prompts, events] = await Promise.all([mine("chunks", { "eq.request_id": id, "eq.attempt": value("attempt"), to: 20000 }),
    mine("prompts", { "eq.prompt_digest": value("prompt_digest") ?? "", to: 1 }), mine("engine_events", { to: 20000 })]);
  const status = value("status");
  const neighbour = (step, text) => (row + step >= 0 && row + step < requests.rows_in_all ? h("a", { href: requestLink(study, stage, at, { row: row + step }) }, text) : null);
  replace(main, h("h1", {}, `Request ${id}`, value("attempt") > 1 ? `, attempt ${value("attempt")}` : ""),
    h("p", {}, h("a", { href: cellLink(study, stage, at) }, breakable(cellText(stage, at))), " ", besides(study, stage, at, value), " ", neighbour(-1, "previous"), " ", neighbour(1, "next")),
    h("p", { class: status === "ok" ? "ok" : "bad" }, status, value("error") ? `: ${value("error")}` : ""),
    missing.map((why) => h("p", { class: "note" }, `${why}.`)),
    phases(value, requests.rows_in_all === page.count ? page : null, chunks), ticksOf(value, chunks), chunkTable(study, stage, at, chunks),
    h("h2", {}, "Every column of the row"), rowFacts(study, stage, at, requests, i, row),
    promptOf(value, prompts), engine(value, events, has("engine_log")));
}

// The row of a request by its id: its last attempt, unless another one is named.
async function rowOf(study, stage, at, { id, attempt }) {
  const found = await table(study, `${stage}.requests`, { cell: at, "eq.request_id": id, ...(attempt !== undefined && { "eq.attempt": attempt }), from: 0, to: 1000 });
  if (!found.count) throw new Error(`the cell has no request ${id}${attempt === undefined ? "" : `, attempt ${attempt}`}`);
  return found.rows.at(-1);
}

// The cell while the request was under way: what ran beside it, and what the machines did.
function besides(study, stage, at, value) {
  const [from, to] = [value("scheduled_ns") ?? value("sent_ns"), value("done_ns")];
  return from !== null && to > from ? h("a", { href: cellLink(study, stage, at, { from, to }) }, "what ran beside it") : null;
}

// The times that a phase took in the answered measured requests of the cell, from the shortest.
function timesOf(requests, ns) {
  const times = [];
  for (let i = 0; i < (requests?.count ?? 0); i += 1) {
    const time = requests.at("status", i) === "ok" && requests.at("phase", i) === "measured" ? ns((name) => requests.at(name, i)) : null;
    if (time !== null) times.push(time);
  }
  return times.sort((a, b) => a - b);
}

function phases(value, requests, chunks) {
  // A time says little without those of the other requests.
  const span = (from, to) => {
    const ns = (of) => (of(from) !== null && of(to) !== null ? of(to) - of(from) : null);
    const own = ns(value);
    if (own === null) return null;
    const times = timesOf(requests, ns);
    const less = times.filter((t) => t < own).length;
    return [nanoseconds(own), times.length > 2 ? h("span", { class: "soft" }, `, longer than ${less.toLocaleString("en-US")} of the cell's ${plural(times.length, "answered request")} (median ${nanoseconds(quantileOf(times, 0.5))})`) : null];
  };
  // As TPOT: without the tokens of the first chunk, and without reasoning that was not sent.
  const hidden = value("first_reasoning_ns") === null ? Math.max(0, value("reasoning_tokens") ?? 0) : 0;
  const first = (chunks?.count && chunks.has("tokens") ? chunks.at("tokens", 0) : null) ?? 1;
  const after = (value("output_tokens") ?? 0) - (first > hidden ? first : hidden + first);
  const gap = after > 0 && value("first_token_ns") !== null ? (value("last_token_ns") - value("first_token_ns")) / after : null;
  return facts([["due to sent (the client's own delay)", span("scheduled_ns", "sent_ns")], ["sent to the answer's head", span("sent_ns", "headers_ns")], ["sent to first token (TTFT)", span("sent_ns", "first_token_ns")],
    ["first to last token", span("first_token_ns", "last_token_ns")], ["time per output token", gap === null ? null : nanoseconds(gap)], ["sent to done", span("sent_ns", "done_ns")],
    ["server's own timings", value("server_prompt_ms") === null ? null : `prompt ${digits(value("server_prompt_ms"))} ms, generation ${digits(value("server_predicted_ms"))} ms`],
    ["phase", value("phase")],
    ["in flight when it was sent", value("in_flight_at_send") === null || value("in_flight_at_send") === undefined ? null : plural(value("in_flight_at_send"), "other request")],
    ["tokens", `${digits(value("prompt_tokens"))} in, ${digits(value("output_tokens"))} out (counted by ${value("tokens_source") ?? "an unknown source"})`]]);
}

function ticksOf(value, chunks) {
  const marks = ["scheduled", "sent", "headers", "first_token", "last_token", "done"].map((name) => [name, value(`${name}_ns`)]).filter(([, t]) => t !== null);
  if (marks.length < 2) return null;
  const times = marks.map(([, t]) => t);
  const whole = [Math.min(...times), Math.max(...times)];
  const paint = (context, { top, height, x }) => {
    const lanes = Math.max(1, Math.floor((height - 8) / 11));
    context.fillStyle = ink("text");
    for (const [, t] of marks) context.fillRect(x(t), top, 1, height);
    // Each name on its own ground, so that the line of a later moment does not cross it.
    marks.forEach(([name, t], lane) => {
      const [text, line] = [name.replace("_", " "), top + 11 + (lane % lanes) * 11];
      const wide = context.measureText(text).width;
      const left = x(t) > context.canvas.clientWidth - 90 ? x(t) - 3 - wide : x(t) + 3;
      context.fillStyle = ink("raised");
      context.fillRect(left - 1, line - 9, wide + 2, 11);
      context.fillStyle = ink("text");
      context.fillText(text, left, line);
    });
  };
  const tracks = [{ name: "phases", height: 74, paint }];
  if (chunks?.count) {
    const at = chunks.column("at_ns").values;
    tracks.push({ name: "tokens in a chunk", unit: "tok", lines: [{ points: at.map((t, i) => [t, chunks.at("tokens", i) ?? 1]), dots: true }] });
    tracks.push({ name: "gap before it", unit: "ms", lines: [{ points: at.slice(1).map((t, i) => [t, (t - at[i]) / 1e6]), dots: true, colour: "track-2" }] });
  }
  const picture = chart(tracks, whole, { onspan: (span) => picture.draw(span), label: "Phases and chunks of the request; drag to choose a span, 0 for all" });
  picture.draw(null);
  return [h("h2", {}, "Over time"), h("figure", {}, picture.element)];
}

function chunkTable(study, stage, at, chunks) {
  if (!chunks?.count) return null;
  const times = chunks.column("at_ns").values;
  const gap = { name: "gap", unit: "ms", description: "time since the previous chunk", values: times.map((t, i) => (i ? (t - times[i - 1]) / 1e6 : null)) };
  const part = { ...chunks, columns: [...chunks.columns, gap] };
  return h("details", {}, h("summary", {}, plural(chunks.count, "chunk")), tableView(asTable(part), { link: (c, _, row) => (c === gap ? null : whyLink({ table: `${stage}.chunks`, cell: at, row, column: c.name })) }));
}

function rowFacts(study, stage, at, requests, i, row) {
  return h("details", {}, h("summary", {}, plural(requests.columns.length, "column")), facts(requests.columns.filter((c) => c.values[i] !== null).map((c) => [c.name,
    h("a", { class: "value", title: c.description, href: whyLink({ table: `${stage}.requests`, cell: at, row, column: c.name }) }, `${typeof c.values[i] === "number" ? digits(c.values[i], 8) : c.values[i]} ${c.unit && c.unit !== "1" ? c.unit : ""}`)])));
}

function promptOf(value, prompts) {
  const digest = value("prompt_digest");
  if (!digest) return null;
  return [h("h2", {}, "Prompt"), h("p", { class: "digest", title: digest }, short(digest)),
    prompts?.count ? h("details", {}, h("summary", {}, `${plural(prompts.at("words", 0) ?? 0, "word")}, ${plural(prompts.at("characters", 0) ?? 0, "character")}`), h("pre", {}, prompts.at("text", 0))) : h("p", { class: "soft" }, "Its text is not stored.")];
}

function engine(value, events, log) {
  const [from, to] = [(value("sent_ns") ?? 0) - SECOND, (value("done_ns") ?? value("sent_ns") ?? 0) + SECOND];
  const lines = new Map();
  for (let i = 0; i < (events?.count ?? 0); i += 1) {
    // A line without a time of its own has the one at which it was read, up to an interval later.
    const own = events.at("at_ns", i);
    const t = own ?? events.at("seen_ns", i);
    if (t >= from && t <= to) lines.set(events.at("line", i), [`${own === null ? "read at " : ""}${nanoseconds(t)}`, events.at("event", i)]);
  }
  if (!lines.size && !log) return null;
  const body = h("pre", {}, [...lines].map(([line, [time, event]]) => `${line}: ${time} ${event}\n`).join(""));
  if (log && lines.size) {
    objectText(log.digest).then((text) => {
      const all = text.split("\n");
      replace(body, [...lines].map(([line, [time]]) => `${line}: ${time}  ${all[line - 1] ?? ""}\n`).join(""));
    }).catch(() => {});
  }
  return [h("h2", {}, "The engine's log within a second"), lines.size ? body : h("p", { class: "soft" }, "No line matches a pattern of the engine's definition.")];
}
