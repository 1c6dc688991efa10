// Empty, damaged and hostile stores, and runs that ended badly, in the browser: every view shows something, every error
// comes with a remedy, and no text of a study is ever read as markup or changes the direction of the surrounding text.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";

const MARKUP = "<img src=x onerror=alert(origin)>";
const TURNED = "a\u202egnp.exe\u202c & 'quoted'";
const LONG = `${"very long ".repeat(1000)}end`;

// A study with a report, non-finite values, and labels and texts that contain markup.
const STUDY = `experiment: odd
title: ${JSON.stringify(`Odd ${MARKUP} ${TURNED}`)}
question: ${JSON.stringify(`Is "this" ${MARKUP} ${TURNED} ${LONG}?`)}
seed: 7
axes:
  configuration:
    - "<script>alert(1)</script>": {server: batching}
    - "it's & &quot;back&quot;": {server: serial}
  clients: [1, 2]
workloads:
  short: {description: ${JSON.stringify(MARKUP)}, prompts: {words: {length: 8}}, output: {tokens: 4}}
stages:
  ladder:
    kind: load
    description: ${JSON.stringify(MARKUP)}
    over: [configuration, clients]
    workload: short
    arrival: {closed-loop: {clients: "\${clients}"}}
    requests-per-client: 6
    simulate: {server: "\${configuration.server}"}
  checks: {kind: verify, needs: [ladder], gates: [{gate: census}, {gate: row-status}]}
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {operator: cell-summary}
      beside:
        operator: sql
        keys: [configuration, clients]
        query: "select configuration, clients, output_throughput, '${MARKUP}' as words from cells"
        units: {output_throughput: tok/s}
        descriptions: {words: ${JSON.stringify(MARKUP)}}
  report: {kind: report, needs: [ladder, checks, results], title: ${JSON.stringify(`Odd ${MARKUP} ${TURNED}`)}}
`;

// Every cell hangs.
const HUNG = `experiment: odd
seed: 7
axes: {clients: [1, 2]}
workloads: {short: {description: Short answers., prompts: {words: {length: 4}}, output: {tokens: 2}}}
stages:
  ladder:
    kind: load
    over: [clients]
    workload: short
    arrival: {closed-loop: {clients: "\${clients}"}}
    requests: 10
    heartbeat: 1 s
    simulate: {server: batching, faults: {hang: {after: 3}}}
  checks: {kind: verify, needs: [ladder], gates: [{gate: census}]}
  results: {kind: analyze, needs: [ladder, checks], tables: {cells: {operator: cell-summary}}}
  report: {kind: report, needs: [ladder, checks, results]}
`;

// A cell with 100,000 requests, all with one label.
const MANY = `experiment: odd
seed: 7
axes: {clients: [8]}
workloads: {short: {description: Short answers., prompts: {words: {length: 4}}, output: {tokens: 2}}}
stages:
  ladder:
    kind: load
    over: [clients]
    workload: short
    arrival: {closed-loop: {clients: "\${clients}"}}
    requests: 100000
    simulate: {server: batching}
  checks: {kind: verify, needs: [ladder], gates: [{gate: census}]}
  results: {kind: analyze, needs: [ladder, checks], tables: {cells: {operator: cell-summary}}}
`;

const VIEWS = ["", "/data", "/plots", "/plots?plot=frontier", "/plots?plot=latency", "/plots?plot=goodput", "/plots?plot=time", "/compare", "/report"];
const AT = "configuration=\"<script>alert(1)</script>\",clients=1";

// The remedies that an alert may give; for a cell that is not ok, the nature of its rows.
const REMEDY = /benchtrail |run again|restore the file|`[^`]+` (lists|describes|has)|it has: |may be incomplete|are evidence|choose |ask for /;

export async function damaged({ binary, folder, serve, page: p, done }) {
  const run = (project, ...arguments_) => spawnSync(binary, arguments_, { cwd: project, encoding: "utf8" });
  const project = (name, study) => {
    const at = `${folder}/${name}`;
    mkdirSync(`${at}/.benchtrail`, { recursive: true });
    mkdirSync(`${at}/experiments`);
    if (study) writeFileSync(`${at}/experiments/odd.yaml`, study);
    return at;
  };
  const good = project("good", STUDY);
  const turned = run(project("turned", STUDY.replace("it's &", "it's \u202e")), "plan", "experiments/odd.yaml");
  assert.equal(turned.status, 2);
  assert.match(turned.stderr, /^error: the label .* contains `\\u\{202e\}`/);
  const made = run(good, "run", "experiments/odd.yaml", "--quiet");
  assert.equal(made.status, 0, made.stdout + made.stderr);
  const copy = (name) => { cpSync(good, `${folder}/${name}`, { recursive: true }); return `${folder}/${name}`; };

  // The requirements on a view: no alert, no markup of the study, no blank page, no exception, and a remedy for every
  // error.
  const said = async (name, address, wanted = null) => {
    try { return await look(name, address, wanted); } catch (error) {
      if (!process.env.SAY) throw error;
      console.log(`WRONG ${error.message}`);
      return "";
    }
  };
  const look = async (name, address, wanted) => {
    await p.go(address);
    await p.until("!document.querySelector('main .soft') || ![...document.querySelectorAll('main .soft')].some((e) => /^(Reading|Following)/.test(e.textContent))");
    const troubles = p.troubles.splice(0).filter((t) => !/^Failed to load resource/.test(t));
    assert.deepEqual(troubles, [], `${name}: the page is in trouble`);
    assert.equal(await p.evaluate("document.querySelectorAll('main script, main img:not(figure img), #drawer script, #drawer img, main [onerror]').length"), 0, `${name}: markup`);
    assert.ok(!/[\u202a-\u202e\u2066-\u2069]/.test(await p.evaluate("document.body.innerText + document.title")), `${name}: a character that changes the direction of text`);
    if (wanted) await p.until(`${wanted}.test(document.getElementById("main").innerText)`);
    const over = await p.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert.ok(over <= 0, `${name}: ${over} pixels beyond the edge`);
    const text = await p.evaluate("document.getElementById('main').innerText");
    assert.ok(text.trim().length > 20, `${name}: an empty page`);
    for (const alert of await p.evaluate("[...document.querySelectorAll('.error')].map((e) => [e.innerText, e.querySelectorAll('p').length])")) assert.ok(alert[1] > 1 || REMEDY.test(alert[0]), `${name}: no remedy in: ${alert[0]}`);
    if (process.env.SAY) console.log(`--- ${name}\n${text.slice(0, Number(process.env.SAY))}`);
    return text;
  };
  const each = async (name, at, wanted = {}, cell = AT) => {
    const base = await serve(at);
    const { studies } = await (await fetch(`${base}api/v1/studies`)).json();
    const told = { studies: await said(`${name}, studies`, `${base}#/studies`) };
    for (const { id } of studies) {
      const study = `${base}#/study/${encodeURIComponent(id)}`;
      for (const view of VIEWS) told[view] = await said(`${name}, ${view || "cells"}`, `${study}${view}`);
      told.cell = await said(`${name}, cell`, `${study}/cell/ladder?cell=${encodeURIComponent(cell)}`);
      told.request = await said(`${name}, request`, `${study}/request/ladder?cell=${encodeURIComponent(cell)}&row=0`);
      told.why = await said(`${name}, number`, `${study}/data?table=results.cells&why=${encodeURIComponent("table=results.cells&cell=&row=0&column=output_throughput")}`);
      told.nothing = await said(`${name}, no such view`, `${study}/nothing`);
    }
    for (const [view, words] of Object.entries(wanted)) { if (process.env.SAY && !words.test(told[view])) console.log(`WRONG ${name}, ${view}: lacks ${words}`); else assert.match(told[view], words, `${name}, ${view}`); }
    done(name);
    return told;
  };

  await each("a study that is markup", good, { "": /<script>alert\(1\)<\/script>/, studies: /\\u202e/ });
  await each("an empty store", project("empty"), { studies: /No experiment has run here yet: / });
  const objects = (at) => readdirSync(`${at}/.benchtrail/objects`, { recursive: true }).map((f) => `${at}/.benchtrail/objects/${f}`).filter((f) => statSync(f).isFile());
  const outputs = async (at, stage, cell = "") => {
    const base = await serve(at);
    const reply = await (await fetch(`${base}api/v1/studies/experiments~odd/cell?stage=${stage}&cell=${encodeURIComponent(cell)}`)).json();
    const file = (digest) => `.benchtrail/objects/${digest.slice(3, 5)}/${digest.slice(5)}`;
    return { record: file(reply.record_digest), ...Object.fromEntries(reply.outputs.map((o) => [o.name, file(o.digest)])) };
  };
  const all = { ladder: await outputs(good, "ladder", AT), results: await outputs(good, "results"), report: await outputs(good, "report"), checks: await outputs(good, "checks") };
  const damage = [["ladder", "requests"], ["ladder", "record"], ["results", "cells"], ["results", "cells.lineage"], ["results", "record"], ["report", "report"], ["report", "trace"], ["report", "record"], ["checks", "gates"]];
  for (const [stage, output] of damage) {
    const gone = copy(`gone-${stage}-${output}`);
    rmSync(`${gone}/${all[stage][output]}`);
    await each(`${stage}.${output} is missing`, gone);
    const cut = copy(`cut-${stage}-${output}`);
    truncateSync(`${cut}/${all[stage][output]}`, 100);
    await each(`${stage}.${output} is cut`, cut);
  }
  const bare = copy("no-objects");
  for (const file of objects(bare)) rmSync(file);
  await each("no object is left", bare);
  const index = copy("no-index");
  for (const file of readdirSync(`${index}/.benchtrail`).filter((f) => f.startsWith("index"))) rmSync(`${index}/.benchtrail/${file}`);
  await each("the index is gone", index);
  const lock = (at) => `${at}/experiments/odd.lock`;
  for (const [name, change] of [["a lock of another version", (t) => t.replace("benchtrail lock 2", "benchtrail lock 9")], ["a lock that is cut", (t) => t.slice(0, 300)], ["a lock of bytes", () => "\u0000\u0001"], ["an empty lock", () => ""]]) {
    const at = copy(name.replaceAll(" ", "-"));
    writeFileSync(lock(at), change(readFileSync(lock(good), "utf8")));
    await each(name, at, /version|cut/.test(name) ? { studies: /odd\.lock/ } : { studies: /There is no lock of a study here/ });
  }
  const long = copy("long-label");
  writeFileSync(lock(long), readFileSync(lock(good), "utf8").replaceAll("clients=2", `clients="${LONG}"`));
  await each("a label of 10 kB", long);
  const hung = project("hung", HUNG);
  assert.equal(run(hung, "run", "experiments/odd.yaml", "--quiet", "--keep-going").status, 1);
  await each("a study of cells that hung", hung, { "": /2 hung/, cell: /are evidence/, "/plots?plot=latency": /No request of an ok cell/, "/data": /No cell of this study is ok/ }, "clients=1");
  await said("a run whose cells hung", `${await serve(hung)}#/run/odd`, /It ended: 2 hung/);

  // A run in progress, a killed run, and a log with a truncated line.
  const many = project("many", MANY);
  const base = await serve(many);
  const going = spawn(binary, ["run", "experiments/odd.yaml", "--quiet"], { cwd: many, stdio: "ignore" });
  const ended = new Promise((over) => { going.once("exit", over); });
  const log = `${many}/reports/odd/events.jsonl`;
  while (going.exitCode === null && !(existsSync(log) && readFileSync(log, "utf8").includes("cell-started"))) await new Promise((next) => { setTimeout(next, 20); });
  await said("a run that goes on", `${base}#/run/odd`, /The run of odd began/);
  going.kill("SIGKILL");
  await ended;
  await said("studies beside a run that was killed", `${base}#/studies`, /Runs: odd[^]*There is no lock of a study here/);
  appendFileSync(log, '{"event":"cell-ended","cell":\n{"event":"cell-ended"}\nnull\n\u0000\n');
  await p.go(`${base}#/studies`);
  await said("a run that was killed", `${base}#/run/odd`, /cannot be read/);
  done("a run that was killed");
  const whole = run(many, "run", "experiments/odd.yaml", "--quiet");
  assert.equal(whole.status, 0, whole.stdout + whole.stderr);
  await each("a cell of 100,000 requests", many, { cell: /100,000 requests/ }, "clients=8");
}
