// The API. An exported page holds the replies it needs; any other asks its own server, and nobody else.

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

// Takes the token out of the address: it must be in no link that is sent, and in no history.
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

async function ask(path, parameters) {
  if (held) {
    const reply = held[keyOf(path, parameters)];
    if (reply === undefined) {
      throw new Refusal(404, {
        error: "this file does not hold that",
        hint: "`benchtrail explore` over the store or the bundle shows everything",
      });
    }
    return reply;
  }
  const response = await fetch(addressOf(path, parameters), { headers: headers() });
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, reply);
  return reply;
}

// Asks once; `fresh` asks again, and the server says whether it changed.
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

// The text of an object, which may be anybody's.
export async function objectText(digest) {
  if (held) return ask(["objects", digest], {});
  const response = await fetch(addressOf(["objects", digest]), { headers: headers() });
  const text = await response.text();
  if (!response.ok) throw new Refusal(response.status, { error: text });
  return text;
}

// A link that saves an answer: a plain link could not send the token.
export async function save(path, parameters, name) {
  const response = await fetch(addressOf(path, parameters), { headers: headers() });
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Follows server-sent events. `fetch` can send the token, which `EventSource` cannot.
export async function follow(path, parameters, signal, hear) {
  const response = await fetch(addressOf(path, parameters), { headers: headers(), signal });
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
      if (data) heard.push([field("event"), JSON.parse(data)]);
    }
    hear(heard);
  }
}

// A table by column name: { columns, names, rows, at(name, i), unit(name) }.
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
  };
}
