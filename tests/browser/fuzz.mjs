// Requests to the API that no page sends: every path with hostile parameters, ranges, tags, methods and hosts, drawn
// from a seed. An answer must come soon, must not be a 500, must be JSON if it is a refusal, and must never allow a
// document to run code. `node tests/browser/fuzz.mjs ADDRESS [COUNT] [SEED]` tests a running explorer.

import assert from "node:assert/strict";
import { request } from "node:http";
import { connect } from "node:net";

// mulberry32: the same requests for the same seed.
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const HOSTILE = ["", "0", "-1", "1e9", "NaN", "Infinity", "18446744073709551615", "18446744073709551616", "9223372036854775807", "-9223372036854775808", "1.5", "true", "null", "'", "\"", "' or 1=1 --", "../../etc/passwd", "..", ".", "/", "\\", "\u0000", "\u202e", "é", "💥", "%", "%00", "%ff", "a=b", "a=b,", ",", "=", "a=\"b", "[", "]", "{}", "<script>", "a".repeat(5000), "b3:", `b3:${"0".repeat(64)}`, `b3:${"f".repeat(64)}`, "requests", "ladder.requests", ".", "requests.", ".requests", "select 1", "select * from cells", "select * from cells, cells", "with recursive a(x) as (select 1 union all select x + 1 from a) select count(*) from a", "select zeroblob(1000000000)", "select hex(randomblob(100))", "attach 'x' as y", "pragma table_list", "select load_extension('x')", "select * from sqlite_master", "insert into cells values (1)", "select 1; select 2", "select 9e999", "select null", "select x'00ff'"];
const NAMES = ["stage", "cell", "table", "row", "column", "line", "text", "report", "metric", "by", "from", "to", "moments", "axis", "a", "b", "unit", "with", "query", "columns", "sort", "order", "contains", "format", "only.clients", "only.x", "eq.clients", "eq.x", "why"];
const FORMATS = ["json", "csv", "arrow", "parquet", "xml", ""];

// Sends one request unchanged, however malformed, and returns status, headers and body.
function ask(base, path, { method = "GET", headers = {}, body = null } = {}) {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base);
    const sent = request({ hostname, port, path, method, headers, timeout: 60000, insecureHTTPParser: true }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) }));
      answer.on("error", reject);
    });
    sent.on("timeout", () => sent.destroy(new Error("no answer within a minute")));
    sent.on("error", reject);
    sent.end(body);
  });
}

// Bytes that are not a request.
function blurt(base, bytes) {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(base);
    const socket = connect(Number(port), hostname, () => socket.end(bytes));
    socket.on("data", () => {});
    socket.on("error", resolve);
    socket.on("close", resolve);
    socket.setTimeout(30000, () => { socket.destroy(); resolve(new Error("it hung")); });
  });
}

// Valid values of a study, to be mixed with invalid ones.
async function words(base) {
  const json = async (path) => JSON.parse((await ask(base, path)).body);
  const { studies } = await json("/api/v1/studies");
  const found = { studies: studies.map((s) => s.id), stages: [], cells: [], tables: [], columns: [], axes: [], labels: [], digests: [], lines: [] };
  for (const id of found.studies) {
    const study = `/api/v1/studies/${encodeURIComponent(id)}`;
    const [overview, cells, report] = [await json(study), await json(`${study}/cells`), await json(`${study}/report`)];
    for (const stage of cells.stages) {
      found.stages.push(stage.name);
      found.axes.push(...stage.axes);
      found.cells.push(...stage.cells.slice(0, 6).map((c) => c.at));
      found.digests.push(...stage.cells.slice(0, 6).map((c) => c.record).filter(Boolean));
      found.labels.push(...stage.cells.slice(0, 6).flatMap((c) => c.labels.map(String)));
    }
    found.tables.push(...overview.tables.map((t) => t.name));
    found.digests.push(...overview.tables.map((t) => t.artifact).filter(Boolean), ...Object.values(report.outputs ?? {}));
    found.lines.push(...(report.numbers ?? []).slice(0, 50).flatMap((n) => [String(n[0]), String(n[1])]));
  }
  const table = await json(`/api/v1/studies/${encodeURIComponent(found.studies[0])}/tables/${encodeURIComponent(found.tables.find((t) => t.endsWith(".cells")) ?? found.tables[0])}?to=1`);
  found.columns = table.columns.map((c) => c.name);
  return found;
}

export async function fuzz(base, { count = 2000, seed = 1 } = {}) {
  const known = await words(base);
  const draw = random(seed);
  const one = (list) => list[Math.floor(draw() * list.length)];
  const chance = (share) => draw() < share;
  const right = { stage: known.stages, cell: known.cells, table: known.tables, row: ["0", "1", "5"], column: [...known.columns, ...known.lines], line: known.lines, metric: ["ttft_ms", "tpot_ms", "e2e_latency_ms", "decode_rate"], by: known.axes, axis: known.axes, a: known.labels, b: known.labels, unit: known.axes, with: known.studies, columns: known.columns, sort: known.columns, order: ["asc", "desc"], format: FORMATS, from: ["0", "1", "1000000"], to: ["1", "10", "100000000000"], moments: ["1", "10", "600", "100000"], query: ["select 1 as one", "select count(*) as n from cells", "select * from cells limit 3"] };
  const segments = [[], ["cells"], ["cell"], ["report"], ["why"], ["distribution"], ["objective"], ["activity"], ["contrast"], ["compare"], ["sql"], ["tables"], ["nothing"]];
  const path = () => {
    const study = () => encodeURIComponent(chance(0.9) ? one(known.studies) : one(HOSTILE));
    if (chance(0.1)) return `/api/v1/objects/${encodeURIComponent(chance(0.7) ? one(known.digests) : one(HOSTILE))}`;
    if (chance(0.05)) return one(["/", "/app.js", "/style.css", "/api", "/api/v1", "/api/v1/", "/api/v1/studies", "/api/v1/runs", "/api/v1/openapi.json", "/api/v2/studies", "/%", "/%00", "//", "/api/v1/runs/x/events", "/api/v1/runs/../events", `/${"a/".repeat(1000)}`, `/${encodeURIComponent(one(HOSTILE))}`]);
    const [what] = [one(segments)];
    const more = what[0] === "tables" || chance(0.03) ? [encodeURIComponent(chance(0.8) ? one(known.tables) : one(HOSTILE))] : [];
    return `/api/v1/studies/${study()}${[...what, ...more].map((s) => `/${s}`).join("")}`;
  };
  const question = () => {
    const pairs = [];
    for (const name of NAMES) {
      if (!chance(0.35)) continue;
      const value = right[name] && chance(0.75) ? one(right[name]) : one(HOSTILE);
      // Occasionally, a malformed escape.
      pairs.push(`${encodeURIComponent(name)}=${chance(0.02) ? "%zz" : encodeURIComponent(value)}`);
    }
    return pairs.length ? `?${pairs.join("&")}` : "";
  };
  const seen = new Map();
  let slowest = [0, ""];
  const check = (what, answer) => {
    seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
    assert.ok(answer.status !== 500, `${what}: 500 ${answer.body.toString().slice(0, 300)}`);
    assert.ok(answer.headers["content-security-policy"] || answer.status === 400 || answer.status === 431, `${what}: no policy`);
    assert.ok(!answer.headers["set-cookie"] && !answer.headers["access-control-allow-origin"], `${what}: a right too many`);
    if (answer.status >= 400 && answer.body.length && /json/.test(answer.headers["content-type"] ?? "")) assert.equal(typeof JSON.parse(answer.body).error, "string", what);
  };
  const host = new URL(base).host;
  for (let i = 0; i < count; i += 1) {
    const target = path() + question();
    const headers = {};
    if (chance(0.15)) headers.range = one(["bytes=0-0", "bytes=0-", "bytes=-1", "bytes=-0", "bytes=5-2", "bytes=99999999999999999999-", "bytes=0-18446744073709551615", "bytes=1-18446744073709551614", "bytes=0-1,3-4", "rows=1", "bytes", "bytes=a-b"]);
    if (chance(0.1)) headers["if-none-match"] = one(["*", "\"\"", "W/\"x\"", "x", "\"x\", \"y\""]);
    if (chance(0.05)) headers["if-range"] = one(["\"x\"", "Tue, 01 Jan 2030 00:00:00 GMT"]);
    const wrong = chance(0.08);
    if (wrong) Object.assign(headers, one([{ host: "evil.example" }, { host: `127.0.0.1.evil.example:${new URL(base).port}` }, { origin: "http://evil.example" }, { origin: "null" }, { "sec-fetch-site": "cross-site" }]));
    const method = chance(0.05) ? one(["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]) : "GET";
    const what = `seed ${seed}, question ${i}: ${method} ${target.slice(0, 600)} ${JSON.stringify(headers)}`;
    const begun = performance.now();
    const answer = await ask(base, target, { method, headers, body: method === "POST" ? one(["", "{}", "{\"token\": 1}", "[", "x".repeat(5000)]) : null }).catch((error) => { throw new Error(`${what}: ${error.message}`); });
    if (performance.now() - begun > slowest[0]) slowest = [performance.now() - begun, what];
    check(what, answer);
    if (wrong) assert.ok(answer.status === 403 || answer.status === 400, `${what}: ${answer.status}`);
    else if (answer.status === 206) assert.match(answer.headers["content-range"], /^bytes \d+-\d+\/\d+$/, what);
    // The same request with the tag of its answer returns "not modified".
    if (answer.status === 200 && method === "GET" && answer.headers.etag && chance(0.2)) {
      const again = await ask(base, target, { headers: { "if-none-match": answer.headers.etag } });
      assert.equal(again.status, 304, `${what}: not the same again`);
      assert.equal(again.body.length, 0, what);
    }
  }
  for (const bytes of ["", "GET\r\n\r\n", "\u0000\u0001\u0002", "GET / HTTP/9.9\r\n\r\n", `GET /${"a".repeat(200000)} HTTP/1.1\r\n\r\n`, `GET / HTTP/1.1\r\n${"x: y\r\n".repeat(5000)}\r\n`, "POST /api/v1/runs/x/stop HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n", "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"]) {
    const end = await blurt(base, bytes);
    assert.ok(!/hung/.test(end?.message ?? ""), `${JSON.stringify(bytes.slice(0, 60))}: ${end?.message}`);
  }
  assert.equal((await ask(base, "/api/v1")).status, 200, `${host} no longer answers`);
  return { seen: Object.fromEntries([...seen].sort()), slowest };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [address, count, seed] = process.argv.slice(2);
  console.log(await fuzz(address, { count: Number(count ?? 2000), seed: Number(seed ?? 1) }));
}
