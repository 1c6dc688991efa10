// The API. An exported page contains the replies it needs; any other page requests them from its own server only.

let held = null;
const replies = new Map();
let token = null;

export class Refusal extends Error {
  constructor(status, reply) {
    super(reply.error ?? `status ${status}`);
    this.status = status;
    this.hint = reply.hint ?? "";
  }
}

// Removes the token from the address, so that it is in no shared link and no history.
export function takeToken() {
  const found = /^#token=([0-9a-f]+)(.*)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem("token", found[1]);
    history.replaceState(null, "", `${location.pathname}#${found[2]}`);
  }
  token = sessionStorage.getItem("token");
}

export async function openData() {
  const element = document.getElementById("data");
  if (!element) {
    takeToken();
    return null;
  }
  const packed = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  held = JSON.parse(await new Response(stream).text());
  element.remove();
  return held.export;
}

export function isFile() {
  return held !== null;
}

function keyOf(path, parameters) {
  const pairs = Object.entries(parameters).map(([name, value]) => `${name}=${value}`).sort();
  return `api/v1${path.map((s) => `/${s}`).join("")}?${pairs.join("&")}`;
}

export function addressOf(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  const escaped = path.map(encodeURIComponent).join("/");
  return `/api/v1${escaped && `/${escaped}`}${query && `?${query}`}`;
}

function headers() {
  return token ? { authorization: `Bearer ${token}` } : {};
}

// A request to the explorer. If nobody answers, the reason is not the browser's.
async function reach(address, options = {}) {
  try {
    return await fetch(address, { ...options, headers: { ...headers(), ...options.headers } });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refusal(0, { error: `The explorer at ${location.host} does not answer`, hint: "start it again where it ran, with `benchtrail explore`, and reload this page" });
  }
}

async function ask(path, parameters) {
  if (held) {
    const reply = held[keyOf(path, parameters)] ?? heldTable(path, parameters) ?? heldDistribution(path, parameters);
    if (reply === undefined) {
      throw new Refusal(404, {
        error: "this file does not contain that",
        hint: "`benchtrail explore` with the store or the bundle shows everything",
      });
    }
    return reply;
  }
  const response = await reach(addressOf(path, parameters));
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, reply);
  return reply;
}

// A table that a file contains in one piece answers for any part of it: a page of its rows, or those of one request.
function heldTable([studies, study, kind, name], { cell, from = 0, to = 1000, sort, contains, ...rest }) {
  if (studies !== "studies" || kind !== "tables" || sort || contains) return undefined;
  const start = `api/v1/studies/${study}/tables/${name}?`;
  const wanted = cell === undefined ? "" : `cell=${cell}&`;
  const key = Object.keys(held).find((k) => k.startsWith(`${start}${wanted}from=0&to=`));
  if (!key) return undefined;
  const whole = held[key];
  const equal = Object.entries(rest).filter(([n]) => n.startsWith("eq.")).map(([n, v]) => [whole.columns.find((c) => c.name === n.slice(3)), String(v)]);
  let places = whole.rows.map((_, i) => i).filter((i) => equal.every(([column, value]) => String(column?.values[i] ?? "") === value));
  const all = equal.length ? places.length : whole.rows_in_all;
  places = places.slice(Number(from), Number(to));
  return { ...whole, from: Number(from), rows: places.map((i) => whole.rows[i]), rows_in_all: all, rows_held: equal.length ? all : whole.rows.length, columns: whole.columns.map((c) => ({ ...c, values: places.map((i) => c.values[i]) })) };
}

// A file contains the distribution of a metric for every combination of labels. For fewer axes, the curves are added
// up. Each point of a curve is an order statistic, so a sum is exact where every request is a point.
function heldDistribution([studies, study, kind], { stage, metric, by = "", ...rest }) {
  if (studies !== "studies" || kind !== "distribution") return undefined;
  const key = Object.keys(held).find((k) => k.startsWith(`api/v1/studies/${study}/distribution?`) && k.endsWith(`&metric=${metric}&stage=${stage}`));
  if (!key) return undefined;
  const whole = held[key];
  const axes = by ? by.split(",") : [];
  const only = Object.entries(rest).filter(([n]) => n.startsWith("only.")).map(([n, v]) => [whole.by.indexOf(n.slice(5)), String(v)]);
  if ([...axes.map((a) => whole.by.indexOf(a)), ...only.map(([i]) => i)].includes(-1)) return undefined;
  const groups = new Map();
  for (const group of whole.groups.filter((g) => only.every(([i, label]) => String(g.labels[i]) === label))) {
    const labels = axes.map((axis) => group.labels[whole.by.indexOf(axis)]);
    const known = groups.get(JSON.stringify(labels));
    if (known) known.push(group);
    else groups.set(JSON.stringify(labels), [group]);
  }
  const add = (list, name) => list.reduce((sum, g) => sum + g[name], 0);
  return { ...whole, by: axes, groups: [...groups].map(([labels, list]) => {
    let rank = 0;
    const steps = list.flatMap((g) => g.points.map(([value, r], i) => [value, r - (i ? g.points[i - 1][1] : 0)])).sort((a, b) => a[0] - b[0]);
    const points = steps.map(([value, step]) => { rank += step; return [value, rank]; });
    return { labels: JSON.parse(labels), cells: add(list, "cells"), cells_not_ok: add(list, "cells_not_ok"), cells_excluded: add(list, "cells_excluded"), requests: add(list, "requests"), ok: add(list, "ok"), n: add(list, "n"), points };
  }) };
}

// Requests once; `fresh` requests again, and the server reports whether it changed.
export async function get(path, parameters = {}, fresh = false) {
  const key = keyOf(path, parameters);
  if (!fresh && replies.has(key)) return replies.get(key);
  const reply = ask(path, parameters);
  replies.set(key, reply);
  if (replies.size > 200) replies.delete(replies.keys().next().value);
  try {
    return await reply;
  } catch (error) {
    replies.delete(key);
    throw error;
  }
}

// Asks for a study again, before a view shows it. After another run, older answers would be about another lock, so all of
// them are dropped.
export async function renew(study) {
  if (held) return;
  const before = await replies.get(keyOf(["studies", study], {}))?.catch(() => null);
  const now = await get(["studies", study], {}, true);
  if (!before || before.lock_digest === now.lock_digest) return;
  replies.clear();
  replies.set(keyOf(["studies", study], {}), Promise.resolve(now));
}

// The text of an object, which may come from any source.
export async function objectText(digest) {
  if (held) return ask(["objects", digest], {});
  const response = await reach(addressOf(["objects", digest]));
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
  return response.text();
}

// A link that saves an answer, since a plain link could not send the token.
export async function save(path, parameters, name) {
  const response = await reach(addressOf(path, parameters));
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Sends the only request that changes something.
export async function post(path, body) {
  const response = await reach(addressOf(path), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, reply);
  return reply;
}

// Follows server-sent events. `fetch` can send the token, which `EventSource` cannot.
export async function follow(path, parameters, signal, hear) {
  const response = await reach(addressOf(path, parameters), { signal });
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const messages = text.split("\n\n");
    text = messages.pop();
    const heard = [];
    for (const message of messages) {
      const field = (name) => message.split("\n").find((l) => l.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      // A line of a damaged log is not an event; the others are.
      try { if (data) heard.push([field("event"), JSON.parse(data)]); } catch { heard.push(["run", { event: "warning", message: "a line of the run's log cannot be read" }]); }
    }
    hear(heard);
  }
}

// A table by column name: { columns, rows, count, has(name), column(name), at(name, i), axis(name) }.
export async function table(study, name, parameters = {}) {
  const reply = await get(["studies", study, "tables", name], parameters);
  return asTable(reply);
}

export function asTable(reply) {
  const byName = new Map(reply.columns.map((column) => [column.name, column]));
  return {
    ...reply,
    count: reply.rows.length,
    has: (column) => byName.has(column),
    column: (column) => byName.get(column),
    at: (column, i) => byName.get(column)?.values[i] ?? null,
    // The column of an axis: a column of the same name has other values.
    axis: (axis) => (byName.has(`axis_${axis}`) ? `axis_${axis}` : axis),
  };
}
