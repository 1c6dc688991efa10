// Opens every view of real studies in a browser, clicks from a number to a request row and back, follows a run, and
// opens an exported study from disk. Stops at the first failure.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { open, page } from "./chromium.mjs";
import { damaged } from "./damaged.mjs";
import { fuzz } from "./fuzz.mjs";

const [binary, project, real] = process.argv.slice(2);
const pictures = process.env.PICTURES;
const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const HOSTILE = "<script>alert(1)</script>";
const LONG = "Qwen3-235B-A22B-Instruct-2507-FP8-Dynamic_kv-cache-fp8_max-num-seqs-512_eagle3";

function run(...arguments_) {
  return spawnSync(binary, arguments_, { cwd: project, encoding: "utf8" });
}

// A simulated study with a label that contains markup, and one that is as long as labels may be.
const file = `${project}/experiments/simulated.yaml`;
const yaml = readFileSync(file, "utf8");
writeFileSync(`${project}/experiments/hostile.yaml`, yaml.replace("experiment: simulated", "experiment: hostile").replace("    batched: {", `    ${LONG}: {server: {slots: 2, prefill: {fixed: 5 ms}, decode: {fixed: 9 ms}, noise: {step: 0.05, cell: 0.01}}}\n    "${HOSTILE}": {`));
// A cell with more requests than the page draws.
writeFileSync(`${project}/experiments/many.yaml`, yaml.replace("experiment: simulated", "experiment: many").replace("clients: [1, 2, 4, 8]", "clients: [8]").replace("to: 3}", "to: 1}").replace("requests-per-client: 6", "requests: 12000"));
// Every kind of figure, with a label as long as labels may be.
writeFileSync(`${project}/experiments/figures.yaml`, `${yaml.replace("experiment: simulated", "experiment: figures").replace("    batched: {", `    ${LONG}: {server: {slots: 2, prefill: {fixed: 5 ms}, decode: {fixed: 9 ms}, noise: {step: 0.05, cell: 0.01}}}\n    batched: {`).trimEnd()}
      comparison: {operator: paired-comparison, from: cells, pair: {axis: configuration, a: batched, b: serial}, unit: [rep], columns: [output_throughput, ttft_ms_p50], by: [clients]}
      each: {operator: parallel-efficiency, from: cells, ladder: clients}
      breaks: {operator: breakdown, rule: efficiency below one half, ladder: clients, any: [{table: each, column: parallel_efficiency, below: 0.5}], unit: [rep]}
      curve: {operator: fit, from: cells, ladder: clients, column: output_throughput, model: michaelis-menten, unit: [rep]}
      requests: {operator: requests, load: ladder}
  report:
    kind: report
    needs: [ladder, checks, results]
    figures:
      ladder: {kind: ladder, table: results.means, x: clients, y: output_throughput_mean, series: configuration, facet: configuration, log-y: true, title: A ladder, caption: Means.}
      ecdf: {kind: ecdf, table: results.requests, x: e2e_latency_ms, series: configuration, log-x: true, title: A distribution, caption: Requests.}
      box: {kind: box, table: results.requests, x: configuration, y: ttft_ms, log-y: true, title: A box, caption: Requests.}
      heat: {kind: heat-map, table: results.efficiency, x: clients, y: configuration, value: parallel_efficiency, format: "0.00", title: A heat map, caption: Efficiency.}
      turned: {kind: heat-map, table: results.efficiency, x: configuration, y: clients, value: parallel_efficiency, format: "0.00", title: A turned heat map, caption: Efficiency.}
      matrix: {kind: matrix, table: results.breaks, x: rule, y: configuration, value: observed_n, title: A matrix, caption: Breakdowns.}
      forest: {kind: forest, table: results.comparison, x: effect, y: metric, band: [adjusted_low, adjusted_high], reference: 1, where: {clients: 8}, format: "0.00×", title: A forest, caption: Batched over serial.}
      bar: {kind: bar, table: results.means, x: clients, y: output_throughput_mean, series: configuration, title: Bars, caption: Means.}
      lying: {kind: bar, table: results.means, x: configuration, y: output_throughput_mean, where: {clients: 8}, title: Lying bars, caption: Means.}
      bubble: {kind: bubble, table: results.cells, x: ttft_ms_p50, y: output_throughput, value: e2e_latency_ms_p50, series: configuration, label: clients, where: {rep: 1}, title: Bubbles, caption: Cells.}
      scatter: {kind: scatter, table: results.cells, x: ttft_ms_p50, y: output_throughput, series: configuration, facet: configuration, log-x: true, log-y: true, title: A scatter, caption: Cells.}
      fit: {kind: fit, table: results.means, x: clients, y: output_throughput_mean, fit: results.curve, series: configuration, title: A fit, caption: Means.}
`);
// Two load stages with the same axes, in a file that does not have the name of its experiment; and the same at other labels.
const stages = (name, clients) => `experiment: ${name}
seed: 5
axes:
  server: {one: {s: batching}, other: {s: serial}}
  clients: [${clients}]
stages:
${[["long", 24], ["short", 2]].map(([stage, tokens]) => `  ${stage}:
    kind: load
    over: [server, clients]
    workload: {description: Few words., prompts: {words: {length: 4}}, output: {tokens: ${tokens}}}
    arrival: {closed-loop: {clients: "\${clients}"}}
    requests: 12
    warmup: 4
    simulate: {server: "\${server.s}"}
`).join("")}  checks: {kind: verify, needs: [long, short], gates: [{gate: census}, {gate: row-status}]}
  results:
    kind: analyze
    needs: [long, short, checks]
    tables:
      cells: {operator: cell-summary, load: short}
      long_cells: {operator: cell-summary, load: long}
      objectives: {operator: goodput, load: short, objectives: [{name: tight, all: [{metric: ttft_ms, at-most: 4}]}, {name: loose, all: [{metric: ttft_ms, at-most: 100}]}]}
`;
writeFileSync(`${project}/experiments/stages.yaml`, stages("two", "1, 2"));
writeFileSync(`${project}/experiments/apart.yaml`, stages("apart", "3, 4"));
console.log("measuring…");
run("run", "experiments/planted-grid.yaml", "--smoke", "--keep-going", "--quiet");
assert.equal(run("run", "experiments/hostile.yaml", "--smoke", "--quiet").status, 0);
assert.equal(run("run", "experiments/simulated.yaml", "--quiet").status, 0);
run("run", "experiments/many.yaml", "--keep-going", "--quiet");
for (const name of ["stages", "apart"]) {
  const made = run("run", `experiments/${name}.yaml`, "--quiet");
  assert.equal(made.status, 0, made.stdout + made.stderr);
}
{
  const made = run("run", "experiments/figures.yaml", "--quiet");
  assert.equal(made.status, 0, made.stdout + made.stderr);
}

const servers = [];
const origins = new Set();
async function serve(folder, ...what) {
  const server = spawn(binary, ["explore", ...what, "--listen", "127.0.0.1:0"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  servers.push(server);
  const address = await new Promise((resolve) => { server.stdout.once("data", (text) => resolve(String(text).split("\n")[0])); });
  origins.add(new URL(address).origin);
  return address;
}

let base = await serve(project);
const browser = await open();
const p = await page(browser);

let step = 0;
async function check(name, act) {
  await act();
  assert.deepEqual(p.troubles, [], `${name}: the page is in trouble`);
  assert.deepEqual(p.asked.filter((u) => !origins.has(new URL(u).origin) && !/^(data|blob|file|about):/.test(u)), [], `${name}: it asked somebody else`);
  for (const [mode, width, height, dark] of [["phone", 360, 740, false], ["dark", 1280, 800, true], ["wide", 2560, 1100, false], ["light", 1280, 800, false]]) {
    await p.size(width, height, dark);
    await pause(120);
    const over = await p.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert.ok(over <= 0, `${name}, ${mode}: ${over} pixels beyond the edge`);
    // A table that continues beyond its edge shows it.
    // On a busy machine, the page needs a moment to mark it.
    const marked = "[...document.querySelectorAll('main .scroll')].every((e) => !e.checkVisibility() || e.scrollWidth - e.clientWidth <= 2 || e.classList.contains('onward') || e.classList.contains('back'))";
    await p.until(marked, 5000).catch(() => assert.fail(`${name}, ${mode}: a table that goes on without a sign`));
    assert.deepEqual(await p.evaluate(CLIPPED), [], `${name}, ${mode}: numbers that are cut off`);
    // A name that stays while the cells scroll leaves room for them.
    const room = await p.evaluate("[...document.querySelectorAll('.cellmap')].filter((e) => e.checkVisibility()).map((e) => e.querySelector('.side')).filter(Boolean).map((e) => e.getBoundingClientRect().width / e.closest('.scroll').clientWidth).filter((share) => share > 0.6)");
    assert.deepEqual(room, [], `${name}, ${mode}: names without room for cells`);
    if (pictures) {
      mkdirSync(pictures, { recursive: true });
      await p.picture(`${pictures}/${String(step).padStart(2, "0")}-${name}-${mode}.png`);
    }
  }
  await enlarged(name);
  await accessible(name);
  await printed(name);
  await walked(name);
  step += 1;
  console.log(`ok ${name}`);
}

// Twice the letters, as a reader sets them in the browser: nothing is cut off, and nothing moves by itself.
async function enlarged(name) {
  await p.size(1280, 800);
  await p.evaluate("document.documentElement.style.fontSize = '200%'");
  await pause(200);
  const found = await p.evaluate(`({ over: document.documentElement.scrollWidth - innerWidth, still: document.getAnimations().length === 0,
    small: [...document.querySelectorAll("main p, main td, main th, main label")].filter((e) => e.checkVisibility() && parseFloat(getComputedStyle(e).fontSize) < 20).map((e) => e.outerHTML.slice(0, 80)) })`);
  assert.deepEqual(await p.evaluate(CLIPPED), [], `${name}, large letters: numbers that are cut off`);
  assert.ok(found.over <= 0, `${name}, large letters: ${found.over} pixels beyond the edge`);
  assert.deepEqual(found.small.slice(0, 3), [], `${name}: letters that do not grow`);
  assert.ok(found.still, `${name}: something moves by itself`);
  await p.evaluate("document.documentElement.style.fontSize = ''");
  await pause(60);
}

// Words of headings that were broken to fit a narrow column. Coordinates may break: they can be longer than a line.
const BROKEN = `[...document.querySelectorAll("main thead th")].filter((e) => e.checkVisibility() && e.textContent.split(/\\s/).every((word) => word.length <= 20)).flatMap((e) => {
  const walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
  const list = [];
  for (let node = walk.nextNode(); node; node = walk.nextNode()) for (const word of node.data.matchAll(/[A-Za-z0-9]{2,16}/g)) {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) list.push(word[0]);
  }
  return list;
}).slice(0, 5)`;

// Numbers that do not fit into their box: a part of a number is another number.
const CLIPPED = `[...document.querySelectorAll(".cellmap td a")].filter((e) => {
  const range = document.createRange();
  range.selectNodeContents(e);
  return range.getBoundingClientRect().width > e.getBoundingClientRect().width + 1;
}).map((e) => e.textContent).slice(0, 3)`;

// In print there is no navigation, nothing that needs a pointer, and nothing beyond the edge.
async function printed(name) {
  await p.size(718, 1000, false, "print");
  await pause(60);
  const wrong = await p.evaluate(`[...document.querySelectorAll("header, #status, .row, button:not(th button), nav.contents")].filter((e) => e.offsetParent !== null).map((e) => e.outerHTML.slice(0, 80))`);
  assert.deepEqual(wrong, [], `${name}: shown on paper`);
  const lost = await p.evaluate(`[...document.querySelectorAll("main th button")].filter((e) => e.closest("thead").checkVisibility() && !e.checkVisibility()).map((e) => e.textContent).slice(0, 3)`);
  assert.deepEqual(lost, [], `${name}: names of columns that are missing on paper`);
  const beyond = await p.evaluate(`[...document.querySelectorAll("main, main table, main .plot, main figure, main pre")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80)).slice(0, 3)`);
  assert.deepEqual(beyond, [], `${name}: cut off on paper`);
  const pointer = await p.evaluate(`(document.getElementById("main").innerText.match(/[^.]*\\b(click|drag over|drag to|swipe)\\b[^.]*/gi) ?? []).slice(0, 3)`);
  assert.deepEqual(pointer, [], `${name}: an instruction on paper that needs a pointer`);
  assert.deepEqual(await p.evaluate(BROKEN), [], `${name}: broken words on paper`);
  assert.deepEqual(await p.evaluate(CLIPPED), [], `${name}: numbers on paper that are cut off`);
  if (["studies", "grid"].includes(name)) {
    const squeezed = await p.evaluate("[document.documentElement.scrollWidth - innerWidth, ...[...document.querySelectorAll('main table:not(.cellmap) th')].map((e) => e.offsetHeight - 60)]");
    assert.ok(squeezed.every((by) => by <= 0), `${name}: cut off or squeezed on paper: ${squeezed}`);
  }
  if (pictures) await p.picture(`${pictures}/${String(step).padStart(2, "0")}-${name}-print.png`);
  await p.size(1280, 800);
}

// Tab reaches everything that a pointer can open, in the order of the page, with visible focus. The first 60 stops are
// tested.
async function walked(name) {
  await p.evaluate("document.querySelector('.skip').focus(); window.scrollTo(0, 0)");
  const wanted = await p.evaluate("Math.min(60, [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex=\"0\"]')].filter((e) => !e.disabled && e.checkVisibility() && !e.closest('details:not([open]) > :not(summary)')).length)");
  const seen = new Set();
  for (let i = 0; i < wanted; i += 1) {
    await p.press("Tab");
    const stop = await p.evaluate(`(() => {
      const e = document.activeElement;
      if (!e || e === document.body) return null;
      const style = getComputedStyle(e);
      const box = e.getBoundingClientRect();
      window.stops = window.stops ?? new WeakMap();
      if (!window.stops.has(e)) window.stops.set(e, Math.random());
      return { id: window.stops.get(e), html: e.outerHTML.slice(0, 120), outlined: e.matches(":focus-visible") && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
        there: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth };
    })()`);
    if (stop === null) break;
    assert.ok(stop.outlined, `${name}: the focus cannot be seen on ${stop.html}`);
    assert.ok(stop.there, `${name}: the focus is out of sight on ${stop.html}`);
    seen.add(stop.id);
  }
  assert.ok(seen.size >= Math.min(wanted, 60) - 3, `${name}: Tab reaches ${seen.size} of ${wanted}`);
  await p.evaluate("document.activeElement?.blur(); window.scrollTo(0, 0)");
}

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

// axe-core reports no violation of any rule, in light and dark mode.
async function accessible(name) {
  for (const dark of [false, true]) {
    await p.size(1280, 800, dark);
    await pause(60);
    if (!await p.evaluate("typeof window.axe === 'object'")) await p.evaluate(`${AXE};0`);
    const wrong = await p.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => `${v.id}: ${v.help} ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 140) + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`))");
    assert.deepEqual(wrong, [], `${name}, ${dark ? "dark" : "light"}: axe-core`);
  }
  await p.size(1280, 800);
  // Marks and lines differ enough from the page, in both schemes.
  for (const dark of [false, true]) {
    await p.size(1280, 800, dark);
    await pause(60);
    const faint = await p.evaluate(`(() => {
      const rgb = (text) => text.match(/[\\d.]+/g)?.slice(0, 3).map(Number);
      const luminance = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = luminance(rgb(getComputedStyle(document.body).backgroundColor));
      const contrast = (c) => { const [a, b] = [luminance(rgb(c)), ground].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
      const painted = (e) => ["fill", "stroke"].map((k) => getComputedStyle(e)[k]).filter((c) => c.startsWith("rgb("));
      // A hollow mark has the colour of the page inside and an outline that differs from it.
      const marks = [...document.querySelectorAll(".plot svg path, .plot svg circle")].map(painted).filter((c) => c.length);
      return [...new Set(marks.filter((c) => c.every((colour) => contrast(colour) < 3)).map(String))];
    })()`);
    assert.deepEqual(faint, [], `${name}, ${dark ? "dark" : "light"}: colours with less contrast than 3:1`);
  }
  await p.size(1280, 800);
  // Checks beyond axe-core: a canvas has words, and no view is wider than its window.
  const mute = await p.evaluate("[...document.querySelectorAll('canvas')].filter((e) => !e.getAttribute('aria-label')).length");
  assert.equal(mute, 0, `${name}: a canvas without words`);
}

// Texts of figures that meet each other, or that lie beyond the edge of their figure.
const MEETING = `[...document.querySelectorAll("figure svg, .plot svg")].filter((e) => e.checkVisibility()).flatMap((figure) => {
  const edge = figure.getBoundingClientRect();
  const texts = [...figure.querySelectorAll("text")].map((e) => [[...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join(""), e.getBoundingClientRect()]).filter(([text]) => text.trim());
  const name = figure.getAttribute("aria-label") ?? figure.querySelector("title")?.textContent;
  const beyond = texts.filter(([, r]) => r.left < edge.left - 2 || r.right > edge.right + 2 || r.top < edge.top - 2 || r.bottom > edge.bottom + 2).map(([text]) => name + ", beyond its edge: " + text);
  const meets = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  return [...beyond, ...texts.flatMap(([text, a], i) => texts.slice(i + 1).filter(([, b]) => meets(a, b)).map(([other]) => name + ": " + text + " meets " + other))];
}).slice(0, 8)`;

// The report that a run writes: no script, nothing beyond an edge, even in print, the first picture beside the answers
// where there is room, and no violation reported by axe-core.
async function reportPage(name, address) {
  await p.send("Page.navigate", { url: address });
  await p.until("document.readyState === 'complete' && document.querySelector('main h1')");
  for (const [width, dark, media] of [[375, false, ""], [1280, true, ""], [2560, false, ""], [680, false, "print"]]) {
    await p.size(width, 900, dark, media);
    await pause(120);
    // A table may scroll on screen, but not in print.
    const beyond = await p.evaluate(`[document.documentElement, ...(${media === "print"} ? document.querySelectorAll("main table") : [])].filter((e) => e.checkVisibility()).map((e) => (e.tagName === "TABLE" ? e.getBoundingClientRect().right : e.scrollWidth) - innerWidth).filter((by) => by > 1)`);
    assert.deepEqual(beyond, [], `the report, ${width} ${media}: beyond the edge`);
    const beside = await p.evaluate("(() => { const [a, f] = document.querySelectorAll('.first > *'); return a && f ? f.getBoundingClientRect().left >= a.getBoundingClientRect().right : null; })()");
    assert.deepEqual(await p.evaluate(MEETING), [], `the report, ${width} ${media}: texts of a figure`);
    if (media) assert.deepEqual(await p.evaluate(BROKEN), [], "the report on paper: broken words");
    if (beside !== null) assert.equal(beside, width >= 1280, `the report, ${width} ${media}: the picture beside the answers`);
    if (pictures) await p.picture(`${pictures}/report-page-${name}-${width}${media}.png`);
  }
  // A click on a number leads to its row among the trails, below a head that stays.
  await p.size(1280, 800);
  await p.evaluate("[...document.querySelectorAll('main table a.n')].filter((e) => !e.closest('#trails')).at(-1).click()");
  await pause(100);
  assert.deepEqual(await p.evaluate(`(() => { const row = document.querySelector("tr:target"); const { top, bottom } = row.getBoundingClientRect();
    return [top >= 0, bottom <= innerHeight, getComputedStyle(row.closest("table").tHead).position]; })()`), [true, true, "sticky"], "the row of a number, below a head that stays");
  // At the end of the page and of its last table, the head of that table is still in view.
  const [above, below] = await p.evaluate(`(() => { document.querySelectorAll("#trails details, details#trails").forEach((e) => { e.open = true; }); const last = [...document.querySelectorAll("#trails .scroll")].at(-1);
    last.scrollTop = last.scrollHeight; scrollTo(0, document.documentElement.scrollHeight); const head = last.querySelector("thead").getBoundingClientRect(); return [head.top, innerHeight - head.bottom]; })()`);
  assert.ok(above >= 0 && below >= 0, `the head of the last trails: ${above} ${below}`);
  await p.send("Page.setBypassCSP", { enabled: true });
  await p.send("Page.navigate", { url: address });
  await p.until("document.readyState === 'complete' && document.querySelector('main h1')");
  await accessible("report as a page");
  await p.send("Page.setBypassCSP", { enabled: false });
  assert.deepEqual(p.troubles, [], "the report as a page");
  step += 1;
  console.log(`ok report as a page: ${name}`);
}

const text = () => p.evaluate("document.getElementById('main').innerText");

// Every study of a project that was measured elsewhere: each view, from a number to a request row, and the exported
// file.
async function studiesOf(folder) {
  base = await serve(folder);
  const { studies } = await (await fetch(`${base}api/v1/studies`)).json();
  assert.ok(studies.length > 0, `${folder} has no study`);
  for (const { id, experiment, profile } of studies) {
    const at = (view) => `${base}#/study/${encodeURIComponent(id)}${view}`;
    for (const [name, view, wanted] of [["cells", "", ".cellmap td a"], ["data", "/data", "main tbody tr"], ["compare", "/compare", "main h2"], ["plots", "/plots", "main .plot svg"], ["latency", "/plots?plot=latency", "main .plot svg"],
      ["frontier", "/plots?plot=frontier", "main .plot svg"], ["goodput", "/plots?plot=goodput", "main .plot svg"], ["time", "/plots?plot=time", "main .plot svg"], ["report", "/report", "a.value"]]) {
      await check(`${id} ${name}`, async () => {
        await p.go(at(view));
        await p.until(`document.querySelector(${JSON.stringify(wanted)})`);
      });
    }
    await check(`${id} number`, async () => {
      await p.click("td a.value");
      await p.until("document.querySelector('#drawer .tree a[href*=\"/request/\"]')");
    });
    await check(`${id} request`, async () => {
      await p.click("#drawer a[href*='/request/']");
      assert.match(await text(), /^Request \d+/);
    });
    await check(`${id} cell`, async () => { await p.click("main p a[href*='/cell/']"); });
    await check(`${id} back to the number`, async () => {
      await p.evaluate("history.go(-2)");
      await p.until("document.querySelector('#drawer .tree') && document.querySelector('main a.value')");
    });
    await check(`${id} as a file`, async () => {
      const file = `${project}/exported.html`;
      const made = spawnSync(binary, ["explore", `${experiment}.yaml`, ...(profile === "smoke" ? ["--smoke"] : []), "--export", file], { cwd: folder, encoding: "utf8" });
      assert.equal(made.status, 0, made.stderr);
      await p.go(`file://${file}`);
      await p.click(".cellmap td a");
      await p.click("main tbody a[href*='/request/']");
      assert.match(await text(), /^Request \d+/);
    });
  }
}

try {
  await p.size(1280, 800);
  await check("studies", async () => {
    await p.go(base);
    assert.match(await text(), /planted-grid \(smoke\)/);
  });
  await check("grid", async () => {
    await p.click("main tbody a[href$='planted-grid.smoke']");
    assert.match(await text(), /2 hung/);
    assert.equal(await p.evaluate("document.querySelectorAll('.cellmap td a').length"), 320);
    assert.equal(await p.evaluate("document.querySelectorAll('.cellmap .hatch-hung').length"), 2);
    // The question and the answers come first, and a cell that a gate excludes looks excluded and says why.
    assert.match(await text(), /licensed[^]*Stage/);
    assert.match(await text(), /excluded: gate /);
    assert.ok(await p.evaluate("document.querySelectorAll('.cellmap .hatch-excluded').length > 0"));
    // So do the comparisons: the effect, its interval, and the verdict.
    await p.evaluate("document.querySelector('main details').open = true");
    assert.match(await text(), /\d comparisons?[^]*: alpha − beta is [+−][\d.]+, interval [+−][\d.]+ to [+−][\d.]+: different, higher on (alpha|beta)/);
  });
  await check("report", async () => {
    await p.click("nav a[href$='/report']");
    assert.ok(await p.evaluate("document.querySelectorAll('a.value').length > 500"));
  });
  await check("a grid of any size", async () => {
    // A new tab counts the requests of a view: no more for 320 cells than for 14.
    const cost = async (study) => {
      const own = await page(browser);
      await own.go(`${base}#/study/${study}`);
      await own.until("document.querySelector('.cellmap td a')");
      const questions = own.asked.filter((u) => u.includes("/api/")).map((u) => new URL(u).pathname.replace(study, "STUDY"));
      const bytes = own.came.bytes;
      await own.close();
      return { questions, bytes };
    };
    const [many, few] = [await cost("experiments~planted-grid.smoke"), await cost("experiments~hostile.smoke")];
    assert.ok(many.questions.length <= 6 && Math.abs(many.questions.length - few.questions.length) <= 1, `${many.questions}\n${few.questions}`);
    assert.ok(many.bytes < 1 << 20, `${many.bytes} bytes`);
  });
  const REPORT = await p.evaluate("location.hash");
  await check("number", async () => {
    await p.evaluate("[...document.querySelectorAll('a.value')].find((a) => /^\\d+\\.\\d/.test(a.textContent) && a.closest('td')).setAttribute('id', 'wanted')");
    await p.click("#wanted");
    await p.until("document.querySelector('#drawer .tree')");
    const counted = await p.evaluate("document.getElementById('drawer').innerText");
    for (const part of ["Formula", "Table row", "Made of", "Raw rows", "gates", "The report prints it"]) assert.ok(counted.includes(part), `${part} in ${counted.slice(0, 500)}`);
  });
  await check("from the number to a request row", async () => {
    await p.click("#drawer a[href*='/request/']");
    assert.match(await text(), /^Request \d+/);
    assert.match(await text(), /sent to first token/);
    // A time stands beside those of the other requests of the cell.
    assert.match(await text(), /longer than \d+ of the cell's \d+ answered requests \(median /);
  });
  await check("cell", async () => {
    await p.click("main p a[href*='/cell/']");
    assert.match(await text(), /Requests over time/);
    // A span chosen by keyboard is in the address, and filters the list.
    const all = await p.evaluate("document.querySelectorAll('main h2').length && [...document.querySelectorAll('main h2')].map((h) => h.textContent).find((t) => t.includes('request') && t.includes('of'))");
    await p.evaluate("document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: '+' }))");
    assert.match(await p.evaluate("location.hash"), /from=\d+&to=\d+/);
    const part = await p.evaluate("[...document.querySelectorAll('main h2')].map((h) => h.textContent).find((t) => t.includes('request') && t.includes('of'))");
    assert.notEqual(part, all);
  });
  await check("a cell from a cell", async () => {
    // One choice leads to the cell with another label, one to the comparison of both, and Back returns.
    const before = await p.evaluate("document.querySelector('main h1').textContent");
    await p.until("document.querySelector('main .siblings select')");
    const chosen = await p.evaluate("(() => { const s = document.querySelector('main .siblings select'); s.selectedIndex = s.selectedIndex ? 0 : 1; s.dispatchEvent(new Event('change')); return s.value; })()");
    await p.until(`document.querySelector('main h1').textContent !== ${JSON.stringify(before)} && document.querySelector('main canvas')`);
    assert.ok((await p.evaluate("document.querySelector('main h1').textContent")).includes(chosen));
    await p.click("main .row a[href*='/compare']");
    await p.until("document.querySelector('main .plot svg')");
    assert.ok((await p.evaluate("document.querySelector('main h1').textContent")).includes(chosen));
    await p.evaluate("history.go(-2)");
    await p.until(`document.querySelector('main h1').textContent === ${JSON.stringify(before)} && document.querySelector('main canvas')`);
  });
  await check("the slowest requests first", async () => {
    await p.evaluate("[...document.querySelectorAll('main th button')].find((b) => b.textContent === 'ttft').click()");
    assert.match(await p.evaluate("location.hash"), /sort=ttft&order=desc/);
    const [times, focus] = await p.evaluate("(() => { const t = [...document.querySelectorAll('main table')].find((e) => e.querySelector('th button')); const at = [...t.querySelectorAll('thead th')].findIndex((e) => e.textContent.startsWith('ttft')); return [[...t.querySelectorAll('tbody tr')].map((r) => Number(r.children[at].title)), document.activeElement.textContent]; })()");
    assert.ok(times.length > 1 && times.every((t, i) => i === 0 || t <= times[i - 1]), `${times}`);
    assert.match(focus, /^ttft/);
  });
  await check("a cell of 12,000 requests", async () => {
    const back = await p.evaluate("location.hash");
    await p.go(`${base}#/study/experiments~many`);
    await p.click(".cellmap td a");
    await p.until("document.querySelector('canvas')");
    assert.match(await text(), /A span of at most 5,000 requests lists them/);
    for (let zoom = 0; zoom < 3; zoom += 1) {
      await p.evaluate("document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: '+' }))");
      await pause(400);
    }
    assert.match(await text(), /[\d,]+ of 12,0\d\d requests/);
    await p.evaluate("[...document.querySelectorAll('main th button')].find((b) => b.textContent === 'ttft').click()");
    const times = await p.evaluate("(() => { const t = [...document.querySelectorAll('main table')].find((e) => e.querySelector('th button')); const at = [...t.querySelectorAll('thead th')].findIndex((e) => e.textContent.startsWith('ttft')); return [...t.querySelectorAll('tbody tr')].map((r) => Number(r.children[at].title)); })()");
    assert.ok(times.length > 1 && times.every((t, i) => i === 0 || t <= times[i - 1]), `${times}`);
    await p.go(`${base}${back}`);
  });
  await check("a cell that a gate excludes", async () => {
    const back = await p.evaluate("location.hash");
    await p.go(`${base}#/study/experiments~planted-grid.smoke`);
    await p.click(".cellmap .hatch-excluded");
    assert.match(await text(), /enters no statistic: gate/);
    await p.go(`${base}${back}`);
  });
  await check("a drag is no click", async () => {
    const cell = await p.evaluate("location.hash");
    await p.until("document.querySelector('main canvas')");
    const [left, top, wide] = await p.evaluate("(() => { const e = document.querySelector('main canvas'); e.scrollIntoView({ block: 'center' }); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width]; })()");
    const mouse = (type, x) => p.send("Input.dispatchMouseEvent", { type, x, y: top + 20, button: "left", buttons: 1, clickCount: 1 });
    await mouse("mousePressed", left + 140);
    for (let x = 160; x < wide - 20; x += 80) await mouse("mouseMoved", left + x);
    await mouse("mouseReleased", left + wide - 20);
    await pause(200);
    assert.match(await p.evaluate("location.hash"), /\/cell\//);
    // A span that is no span is the whole cell.
    await p.go(`${base}${cell.replace(/[?&](from|to)=\d+/g, "")}&from=abc&to=def`);
    assert.match(await text(), /Figures of the cell|Requests over time/);
    await p.go(`${base}${cell}`);
  });
  await check("the figures of a span", async () => {
    // The figures are those of the span, and `0` in the tracks returns to the whole cell.
    await p.until("document.querySelector('main h2') && [...document.querySelectorAll('main h2')].some((h) => h.textContent === 'Figures of the span')");
    const sent = await p.evaluate("[...document.querySelectorAll('main tr')].find((r) => r.textContent.startsWith('measured requests sent')).innerText.split(/\\s+/).filter((t) => /^\\d+$/.test(t)).map(Number)");
    assert.ok(sent.length === 2 && sent[0] < sent[1], `${sent}`);
    await p.evaluate("document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: '0' }))");
    await p.until("[...document.querySelectorAll('main h2')].some((h) => h.textContent === 'Figures of the cell')");
    assert.ok(await p.evaluate("document.querySelectorAll('.curves svg').length") >= 2);
  });
  await check("a value of a row", async () => {
    await p.click("main table a.number");
    await p.until("document.querySelector('#drawer h3')");
    await p.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
    await p.until("document.getElementById('drawer').hidden");
  });
  await check("a number by keys alone", async () => {
    await p.evaluate(`location.hash = ${JSON.stringify(REPORT)}`);
    await p.settled();
    // Enter opens the tree, and Escape closes it and returns the reader to the same place.
    await p.evaluate("document.querySelectorAll('a.value')[3].focus()");
    await p.press("Enter");
    await p.until("document.querySelector('#drawer .tree')");
    // The drawer takes the focus when it is complete, which may be after the tree appears.
    await p.until("document.getElementById('drawer').contains(document.activeElement)");
    await p.press("Escape");
    await p.until("document.getElementById('drawer').hidden && document.activeElement === document.querySelectorAll('a.value')[3]");
  });
  await check("a step back", async () => {
    // Where a reader had scrolled to is where a step back returns.
    await p.evaluate(`location.hash = ${JSON.stringify(REPORT)}`);
    await p.settled();
    await p.evaluate("document.querySelectorAll('td a.value')[200].scrollIntoView({ block: 'center' })");
    await pause(300);
    const y = await p.evaluate("scrollY");
    assert.ok(y > 500, `${y}`);
    await p.click("nav a[href$='/data']");
    assert.equal(await p.evaluate("scrollY"), 0);
    await p.evaluate("history.back()");
    await p.until(`document.querySelector('a.value') && Math.abs(scrollY - ${y}) < 3`);
    // A choice is a step, and a number that opens leaves the view as it is.
    await p.click("nav a[href$='/data']");
    await p.evaluate("(() => { const s = document.querySelector('main select'); s.value = 'results.efficiency'; s.dispatchEvent(new Event('change')); })()");
    await p.until("location.hash.includes('table=results.efficiency') && document.querySelector('main tbody a.number')");
    await p.evaluate("[...document.querySelectorAll('main th button')].find((b) => b.textContent === 'clients').click()");
    await p.until("location.hash.includes('sort=clients') && document.querySelector('main tbody a.number')");
    await pause(200);
    await p.evaluate("window.kept = document.querySelector('main table')");
    await p.click("main tbody a.number");
    await p.until("document.querySelector('#drawer h3')");
    assert.ok(await p.evaluate("window.kept === document.querySelector('main table')"), "the view is drawn again for a number beside it");
    await p.evaluate("history.go(-2)");
    await p.until("!location.hash.includes('results.efficiency') && document.querySelector('main select').value !== 'results.efficiency'");
  });
  await check("columns by their names", async () => {
    await p.go(`${base}#/study/experiments~planted-grid.smoke/data?table=results.cells&named=ttft,throughput`);
    await p.until("document.querySelector('main tbody tr')");
    const names = await p.evaluate("[...document.querySelectorAll('main th button')].map((b) => b.textContent)");
    assert.ok(names.includes("engine") && names.includes("ttft_ms_p50") && names.includes("output_throughput") && names.every((n) => /ttft|throughput|^(engine|model|workload|clients|rep|phase)$/.test(n)), `${names}`);
    assert.match(await text(), /\d+ of \d+ columns/);
    // The rows of many cells keep what tells them apart.
    await p.go(`${base}#/study/experiments~planted-grid.smoke/data?table=grid.requests&named=sent`);
    await p.until("document.querySelector('main tbody tr')");
    const kept = await p.evaluate("[...document.querySelectorAll('main th button')].map((b) => b.textContent)");
    assert.deepEqual(kept, ["engine", "model", "workload", "clients", "axis_phase", "rep", "request_id", "attempt", "sent_ns"].filter((n) => kept.includes(n)));
    assert.ok(["engine", "rep", "request_id", "sent_ns"].every((n) => kept.includes(n)), `${kept}`);
  });
  await check("studies in order", async () => {
    await p.go(`${base}#/studies?sort=${encodeURIComponent("measured cells")}&order=desc`);
    const counts = () => p.evaluate("[...document.querySelectorAll('main tbody tr')].map((r) => Number(r.querySelector('td.number').firstChild.data.replaceAll(',', '')))");
    assert.deepEqual(await counts(), (await counts()).toSorted((a, b) => b - a));
    await p.evaluate("(() => { const e = document.querySelector('input[type=search]'); e.value = 'batching'; e.dispatchEvent(new Event('input')); })()");
    assert.match(await p.evaluate("location.hash"), /q=batching/);
    assert.ok((await counts()).length < 5);
  });
  await check("back to the report", async () => {
    await p.evaluate(`location.hash = ${JSON.stringify(REPORT)}`);
    await p.settled();
  });
  await check("data", async () => {
    await p.click("nav a[href$='/data']");
    await p.until("document.querySelector('main tbody tr')");
  });
  await check("sql", async () => {
    await p.go(`${base}#/study/experiments~planted-grid.smoke/data?sql=${encodeURIComponent("select engine, count(*) as n from cells group by engine")}`);
    await p.until("document.querySelector('main tbody tr')");
    assert.match(await text(), /alpha/);
    const targets = async (view) => {
      await p.go(`${base}#/study/experiments~planted-grid.smoke/data?${view}`);
      await p.until("document.querySelector('main tbody tr')");
      return p.evaluate("[...document.querySelectorAll('main tbody a[href]')].map((a) => decodeURIComponent(a.hash)).filter((h) => !h.includes('why='))");
    };
    const ask = (query) => targets(`sql=${encodeURIComponent(query)}`);
    // Without one of the axes, a row is of no cell.
    assert.deepEqual(await ask('select engine, request_id from "grid.requests" limit 2'), []);
    const axes = "engine, model, workload, clients, axis_phase, rep";
    const cells = await ask(`select ${axes}, count(*) as n from "grid.requests" group by ${axes} limit 2`);
    assert.ok(cells.length === 2 && cells.every((h) => h.includes("/cell/grid?cell=engine=")), `${cells}`);
    const [first] = await ask(`select ${axes}, request_id, attempt from "grid.requests" where request_id = 9 limit 1`);
    assert.match(first, /\/request\/grid\?cell=engine=.*&id=9&attempt=1/);
    await p.click("main tbody a");
    await p.until("document.querySelector('main h1')?.innerText === 'Request 9'");
    const gates = await targets("table=checks.gates&contains=comparability");
    assert.ok(gates.length > 100 && gates.every((h) => h.includes("/cell/grid?cell=engine=")), `${gates[0]}`);
    const rows = await targets("table=results.cells");
    assert.ok(rows.length > 20 && rows.every((h) => h.includes("/cell/grid?cell=engine=")), `${rows[0]}`);
  });
  const GRID = `${base}#/study/experiments~planted-grid.smoke`;
  for (const [plot, wanted] of [["trade", "output throughput"], ["frontier", "no other one beats"], ["latency", "Requests of all repetitions"], ["goodput", "requests meet every bound"], ["time", "as the client saw them"]]) {
    await check(`plot ${plot}`, async () => {
      await p.go(`${GRID}/plots?plot=${plot}`);
      await p.until(`document.querySelector("main .plot svg") && document.querySelector("main").innerText.includes(${JSON.stringify(wanted)})`);
      assert.ok(await p.evaluate("document.querySelectorAll('main .plot svg path, main .plot svg circle').length > 3"), "marks");
      assert.deepEqual(await p.evaluate(MEETING), [], "texts of the plot");
      // The same data as a table.
      await p.evaluate("document.querySelector('details.twin summary').click()");
      await p.until("document.querySelectorAll('details.twin tbody tr').length > 3");
    });
  }
  await check("a span of a plot", async () => {
    // A drag selects the range below it. The plot, its table and the address follow, and the keyboard undoes it.
    await p.go(`${GRID}/plots?plot=latency`);
    await p.until("document.querySelector('main .plot svg')");
    await p.evaluate("document.querySelector('main .plot').scrollIntoView({ block: 'center' })");
    const [left, top, wide] = await p.evaluate("(() => { const svg = document.querySelector('main .plot svg'); const b = svg.getBoundingClientRect(); const k = b.width / svg.viewBox.baseVal.width; const a = svg.areas[0]; return [b.left + a.left * k, b.top + (a.top + 20) * k, (a.right - a.left) * k]; })()");
    const mouse = (type, x) => p.send("Input.dispatchMouseEvent", { type, x, y: top, button: "left", buttons: 1, clickCount: 1 });
    await mouse("mousePressed", left + wide * 0.05);
    for (const part of [0.1, 0.2, 0.3]) await mouse("mouseMoved", left + wide * part);
    await mouse("mouseReleased", left + wide * 0.3);
    await p.until("location.hash.includes('span=')");
    await p.until("[...document.querySelectorAll('main p[role=status]')].some((e) => / of .* rows of the table are in the span/.test(e.textContent))");
    const [n, all] = (await p.evaluate("[...document.querySelectorAll('main p[role=status]')].map((e) => e.textContent).find((t) => t.includes('are in the span'))")).match(/\d+/g).map(Number);
    assert.ok(n > 0 && n < all, `${n} of ${all}`);
    await p.evaluate("[...document.querySelectorAll('main button')].find((b) => b.textContent === 'All').click()");
    await p.until("!location.hash.includes('span=')");
  });
  await check("a bound that is moved", async () => {
    await p.go(`${GRID}/plots?plot=goodput`);
    await p.until("document.querySelector('input[type=range]')");
    const counted = () => p.evaluate("[...document.querySelectorAll('main p[role=status]')].map((e) => e.textContent).find((t) => t.includes('every bound'))");
    const all = await counted();
    await p.evaluate("(() => { const e = document.querySelector('input[type=range]'); e.value = '2'; e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); })()");
    await p.until("location.hash.includes('bound.ttft_ms=')");
    await p.settled();
    await p.until("document.querySelector('main p[role=status]')");
    assert.notEqual(await counted(), all);
  });
  await check("plots as figures of a report", async () => {
    const tables = [];
    const figures = [];
    for (const question of ["plot=trade&log=x", "plot=frontier&gpus=2&price=3", "plot=latency&metric=e2e_latency_ms", "plot=goodput&bound.e2e_latency_ms=600", "plot=frontier"]) {
      await p.go(`${base}#/study/experiments~simulated/plots?${question}`);
      await p.until("document.querySelector('details.yaml pre')");
      const [table, figure] = [...(await p.evaluate("document.querySelector('details.yaml pre').textContent")).split("# Among the figures of a report stage")];
      if (figure === undefined) throw new Error(`${question}: no figure`);
      tables.push(table.split("\n").filter((l) => !l.startsWith("#")));
      figures.push(figure.split("\n").slice(1).map((l) => l.replace(/^frontier:/, `frontier_${figures.length}:`)));
    }
    const indent = (lines) => lines.flat().filter((l) => l.trim()).map((l) => `      ${l}\n`).join("");
    writeFileSync(file, `${yaml.trimEnd()}\n${indent(tables)}\n  shown:\n    kind: report\n    needs: [ladder, checks, results]\n    figures:\n${indent(figures)}`);
    const made = run("run", "experiments/simulated.yaml", "--quiet");
    assert.equal(made.status, 0, made.stdout + made.stderr);
    // The analysis and the new report; nothing was measured.
    assert.match(made.stdout, /^2 cells executed/m);
    const report = readFileSync(`${project}/reports/simulated/report.md`, "utf8");
    assert.equal((report.match(/^!\[/gm) ?? []).length, figures.length, "every figure is in the report");
  });
  await check("the rows behind a mean", async () => {
    await p.go(`${GRID}/plots`);
    await p.until("document.querySelector('main .plot svg a')");
    assert.match(await text(), /A mark opens its rows/);
    await p.evaluate("document.querySelector('main .plot svg a').dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }))");
    await p.until("location.hash.includes('eq.clients=') && document.querySelector('main tbody tr')");
    assert.equal(await p.evaluate("document.querySelectorAll('main tbody tr').length"), 2);
    assert.match(await text(), /Only rows with/);
    await p.evaluate("[...document.querySelectorAll('main button')].find((b) => b.textContent === 'All rows').click()");
    await p.until("!location.hash.includes('eq.') && document.querySelectorAll('main tbody tr').length > 2");
  });
  await check("the focus stays on what was changed", async () => {
    const turn = async (name) => {
      const control = `[data-control=${JSON.stringify(name)}]`;
      await p.until(`document.querySelector(${JSON.stringify(control)})`);
      await p.evaluate(`(() => { const e = document.querySelector(${JSON.stringify(control)}); e.focus(); if (e.tagName === "SELECT") { e.selectedIndex = e.selectedIndex ? 0 : 1; e.dispatchEvent(new Event("change")); } else e.click(); })()`);
      await p.until(`document.activeElement?.dataset?.control === ${JSON.stringify(name)}`);
    };
    for (const [view, names] of [["", ["clients", "Colour", "Line"]], ["/plots", ["Across", "Colour by"]], ["/compare", ["Axis"]], ["/data?table=results.cells", ["sort clients", "Later", "Table"]]]) {
      await p.go(GRID + view);
      for (const name of names) await turn(name);
    }
  });
  await check("what is shown is what is saved", async () => {
    await p.go(`${GRID}/data?table=results.cells&contains=alpha&sort=clients&order=desc&named=throughput`);
    await p.until("document.querySelector('main tbody tr')");
    await p.evaluate("[...document.querySelectorAll('main button')].find((b) => b.textContent === 'Save as CSV').click()");
    while (!p.asked.at(-1).includes("format=csv")) await pause(50);
    const { searchParams } = new URL(p.asked.at(-1));
    assert.deepEqual(["contains", "sort", "order"].map((name) => searchParams.get(name)), ["alpha", "clients", "desc"]);
    assert.match(searchParams.get("columns"), /^engine,.*output_throughput/);
  });
  await check("cells that a gate excluded enter no curve", async () => {
    const cells = await (await fetch(`${base}api/v1/studies/experiments~planted-grid.smoke/cells`)).json();
    const excluded = cells.stages.find((s) => s.name === "grid").cells.filter((c) => c.excluded).length;
    await p.go(`${GRID}/plots?plot=goodput&only.workload=long-prefill`);
    await p.until("document.querySelector('main .plot svg')");
    assert.match(await text(), /Of \d+ cells, without .*that a gate excluded/);
    await p.go(`${base}#/studies`);
    await p.until("document.querySelector('main tbody tr')");
    assert.match(await text(), new RegExp(`${excluded} excluded by a gate`));
  });
  await check("two labels side by side", async () => {
    await p.go(`${GRID}/compare`);
    await p.until("document.querySelector('main .plot svg')");
    assert.match(await text(), /engine: alpha against beta/);
    // What differs in some pairs of cells only, with their number.
    assert.match(await text(), /simulate\.server\.prefix-cache\s+32 of 149/);
    assert.match(await text(), /better side/);
    assert.match(await text(), /planned: the experiment chose it/);
    assert.match(await text(), /no replication of launches/);
  });
  await check("two studies side by side", async () => {
    await p.go(`${base}#/studies`);
    await p.evaluate("[...document.querySelectorAll('main tbody tr')].filter((r) => /^(simulated|hostile)/.test(r.querySelector('a').textContent)).forEach((r) => r.querySelector('input').click())");
    await p.click("main .row button");
    await p.until("document.querySelector('main .plot svg')");
    assert.match(await text(), /Results at \d+ coordinates/);
  });
  const TWO = `${base}#/study/experiments~stages`;
  await check("two load stages with the same axes", async () => {
    // Every view shows the values of its stage, without a choice.
    const numbers = () => p.evaluate("[...document.querySelectorAll('.cellmap td a')].map((e) => e.textContent)");
    const own = async (stage, table) => {
      await p.go(`${TWO}?stage=${stage}`);
      assert.equal(await p.evaluate("document.querySelector('select[data-control=Colour]').value"), table);
      const shown = await numbers();
      await p.go(`${TWO}/plots?stage=${stage}`);
      await p.until("document.querySelector('details.twin summary')");
      assert.match(await p.evaluate("document.querySelector('details.yaml pre').textContent"), new RegExp(`table: ${table}\\n`));
      await p.go(`${TWO}/compare?stage=${stage}`);
      await p.until("document.querySelector('main table')");
      assert.ok((await text()).includes(`From the table ${table}.`));
      return shown;
    };
    assert.notDeepEqual(await own("long", "results.long_cells"), await own("short", "results.cells"));
    // Those of the other one are named.
    for (const view of ["?stage=short&colour=results.long_cells", "/plots?stage=short&table=results.long_cells", "/compare?stage=short&table=results.long_cells"]) {
      await p.go(TWO + view);
      await p.until("document.querySelector('main').innerText.includes('These are values of stage long, and not of short.')");
    }
  });
  await check("several rows for each cell", async () => {
    await p.go(`${TWO}?stage=short&colour=results.objectives&column=goodput`);
    const shown = () => p.evaluate("[...document.querySelectorAll('.cellmap td a')].map((e) => e.getAttribute('aria-label')).join()");
    const loose = await shown();
    assert.equal(await p.evaluate("(() => { const s = document.querySelector('select[data-control=objective]'); const before = s.value; s.value = 'tight'; s.dispatchEvent(new Event('change')); return before; })()"), "loose");
    await p.until("location.hash.includes('key.objective=tight') && !document.querySelector('[aria-busy]')");
    assert.notEqual(await shown(), loose);
    // A share has no unit.
    await p.go(`${TWO}?stage=short&colour=results.cells&column=ok_rate`);
    assert.match(await shown(), /ok_rate 1(,|$)/);
  });
  await check("the output of a cell with warm-up", async () => {
    const cells = await (await fetch(`${base}api/v1/studies/experiments~stages/tables/results.cells`)).json();
    const value = (name) => cells.columns.find((c) => c.name === name).values[0];
    await p.go(`${base}#/study/experiments~stages/cell/short?cell=${encodeURIComponent(`server=${value("server")},clients=${value("clients")}`)}`);
    await p.until("[...document.querySelectorAll('main tr')].some((r) => r.textContent.startsWith('output of requests'))");
    const output = await p.evaluate("[...document.querySelectorAll('main tr')].find((r) => r.textContent.startsWith('output of requests')).querySelector('td').textContent");
    assert.ok(Math.abs(Number(output) / value("output_throughput") - 1) < 1e-3, `${output} and ${value("output_throughput")}`);
    assert.match(await text(), /4 of warm-up, which enter no figure/);
  });
  await check("a bound that is typed", async () => {
    const counted = async (bound) => {
      await p.go(`${TWO}/plots?plot=goodput&stage=long&bound.ttft_ms=${bound}`);
      await p.until("[...document.querySelectorAll('main p[role=status]')].some((e) => e.textContent.includes('every bound'))");
      return Number((await text()).match(/([\d,]+) of [\d,]+ requests meet every bound/)[1]);
    };
    const { columns: [{ values }] } = await (await fetch(`${base}api/v1/studies/experiments~stages/sql?query=${encodeURIComponent("select (first_token_ns - sent_ns) / 1e6 as t from \"long.requests\" where phase = 'measured' order by 1")}`)).json();
    const bound = (values[23] + values[24]) / 2;
    assert.equal(await counted(bound), values.filter((v) => v <= bound).length);
    assert.equal(await counted(values[0] / 2), 0);
    assert.equal(await counted(values.at(-1) * 2), values.length);
    await counted("some");
    assert.match(await text(), /“some” is not a number, so TTFT has no bound/);
    await p.evaluate("(() => { const e = document.querySelector('input[data-control=\"bound.ttft_ms\"]'); e.focus(); e.value = '4.5'; e.dispatchEvent(new Event('change')); })()");
    await p.until("location.hash.includes('bound.ttft_ms=4.5') && document.activeElement?.dataset?.control === 'bound.ttft_ms'");
  });
  await check("cells without a value", async () => {
    await p.go(`${TWO}/plots?stage=short&x=ttft_ms_n&y=ttft_ms_p50`);
    await p.until("document.querySelector('main .plot svg')");
    assert.doesNotMatch(await text(), /have no /);
    await p.go(`${base}#/study/experiments~simulated/plots?x=ttft_ms_p90`);
    await p.until("document.querySelector('main .plot svg')");
    assert.match(await text(), /18 of 24 cells have no TTFT p90 \(batched: 9; serial: 9\): refused, p90 of [^]*values needed/);
    await p.go(`${GRID}/plots?only.workload=long-prefill`);
    await p.until("document.querySelector('main .plot svg')");
    assert.match(await text(), /Of \d+ cells, without .*that a gate excluded/);
  });
  await check("a row of a table over cells", async () => {
    await p.go(`${TWO}/data?table=short.requests&from=16`);
    await p.click("main tbody a[href*='/request/short']");
    assert.match(await text(), /^Request \d+\n*short\[/);
    await p.go(`${TWO}/data?table=short.cell`);
    await p.click("main tbody a[href*='/cell/short']");
    assert.match(await text(), /^short\[/);
    await p.go(`${GRID}/data?table=grid.requests&from=0`);
    await p.until("document.querySelector('main tbody tr')");
    const [first, last] = (await text()).match(/rows (\d+) to (\d+) of/).slice(1).map(Number);
    assert.equal(last - first + 1, await p.evaluate("document.querySelectorAll('main tbody tr').length"));
  });
  await check("a long text among many columns", async () => {
    await p.go(`${GRID}/data?table=results.cells`);
    await p.until("document.querySelector('main td .clipped')");
    const tall = () => p.evaluate("document.querySelector('main td .clipped').getBoundingClientRect().height");
    const before = await tall();
    await p.evaluate("document.querySelector('main td .clipped').focus()");
    assert.ok(await tall() > before, "all of it with the focus");
    await p.evaluate("document.activeElement.blur()");
  });
  await check("a view that comes too late", async () => {
    // The requests of a cell take long; meanwhile, the reader opens the plots.
    await p.go(TWO);
    await p.evaluate("window.quick = window.fetch; window.fetch = async (asked, options) => { const reply = await window.quick(asked, options); if (String(asked).includes('.requests')) await new Promise((done) => { setTimeout(done, 1500); }); return reply; }");
    const at = await p.evaluate("document.querySelector('.cellmap td a').href");
    await p.evaluate(`location.hash = ${JSON.stringify(new URL(at).hash.replace("/cell/", "/request/"))} + "&row=3"`);
    await pause(200);
    await p.click("nav a[href$='/plots']");
    await pause(2500);
    assert.deepEqual(await p.evaluate("[document.querySelector('main h1').textContent, document.title]"), ["Plots", "Plots · Benchtrail"]);
    await p.evaluate("window.fetch = window.quick");
  });
  await check("two studies without a common label", async () => {
    await p.go(`${base}#/compare/experiments~stages/experiments~apart`);
    await p.until("document.querySelector('main h2')");
    assert.match(await text(), /no cell has the same labels in both: only the older one has, for instance, /);
    assert.doesNotMatch(await text(), /No recorded setting/);
  });
  await check("a run whose file has another name", async () => {
    await p.go(`${base}#/run/two`);
    await p.until("document.querySelector('main a[href$=\"/study/experiments~stages\"]')");
  });
  await check("no history without commits", async () => {
    await p.go(`${base}#/study/experiments~hostile.smoke/history`);
    await p.until("document.querySelector('main .error')");
    assert.match(await text(), /commit the lock after each run/);
    p.troubles.splice(0, p.troubles.length, ...p.troubles.filter((t) => !/^Failed to load resource/.test(t)));
  });
  await check("a figure over commits", async () => {
    const git = (...asked) => assert.equal(spawnSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", ...asked], { cwd: project }).status, 0, asked.join(" "));
    git("init", "-q");
    for (const seed of [1, 2, 3]) {
      writeFileSync(`${project}/experiments/followed.yaml`, yaml.replace("experiment: simulated", "experiment: followed").replace("seed: 164", `seed: ${seed}`));
      assert.equal(run("run", "experiments/followed.yaml", "--smoke", "--quiet").status, 0);
      git("add", "-f", "experiments/followed.smoke.lock");
      git("commit", "-q", "-m", `seed ${seed}`);
    }
    await p.go(`${base}#/study/experiments~followed.smoke/history?table=results.means`);
    await p.until("document.querySelector('main .plot svg')");
    assert.match(await text(), /3 commits[^]*undecidable: 3 measurements, and a change point needs \d+[^]*seed 3/);
    assert.deepEqual(await p.evaluate(MEETING), [], "texts of the plot");
    await p.evaluate("[...document.querySelectorAll('main select')].at(-1).selectedIndex = 1; [...document.querySelectorAll('main select')].at(-1).dispatchEvent(new Event('change'))");
    await p.until("location.hash.includes('only=') && document.querySelectorAll('main tbody tr').length === 3");
  });
  await check("a study that ran again, and a lock that is gone", async () => {
    const [lock, kept] = [`${project}/experiments/followed.smoke.lock`, readFileSync(`${project}/experiments/followed.smoke.lock`)];
    await p.go(`${base}#/study/experiments~followed.smoke`);
    const trail = () => p.evaluate("document.querySelector('main .digest').textContent");
    const before = await trail();
    writeFileSync(`${project}/experiments/followed.yaml`, yaml.replace("experiment: simulated", "experiment: followed").replace("seed: 164", "seed: 9"));
    assert.equal(run("run", "experiments/followed.yaml", "--smoke", "--quiet").status, 0);
    await p.go(`${base}#/study/experiments~followed.smoke/report`);
    assert.match(await text(), /This study has no report/);
    await p.go(`${base}#/study/experiments~followed.smoke`);
    assert.notEqual(await trail(), before, "the page shows the new results without a reload");
    rmSync(lock);
    await p.go(`${base}#/study/experiments~followed.smoke/data`);
    assert.match(await text(), /followed.smoke.lock is gone[^]*benchtrail run/);
    writeFileSync(lock, kept);
    p.troubles.splice(0, p.troubles.length, ...p.troubles.filter((t) => !/^Failed to load resource/.test(t)));
  });
  await check("an explorer that stopped", async () => {
    const own = await serve(project);
    await p.go(own);
    const server = servers.pop();
    server.kill();
    await new Promise((done) => { server.exitCode === null && server.signalCode === null ? server.once("exit", done) : done(); });
    await p.go(`${own}#/study/experiments~simulated`);
    assert.match(await text(), /does not answer[^]*start it again[^]*benchtrail explore/);
    await p.go(`${base}#/studies`);
    p.troubles.splice(0, p.troubles.length, ...p.troubles.filter((t) => !/^Failed to load resource/.test(t)));
  });
  await check("markup as labels", async () => {
    await p.go(`${base}#/study/experiments~hostile.smoke`);
    assert.ok((await text()).includes(HOSTILE));
    await p.click(".cellmap td a");
    assert.ok((await text()).includes(HOSTILE));
    assert.equal(await p.evaluate("document.querySelectorAll('main script').length"), 0);
  });
  await check("a run that goes on", async () => {
    const going = spawn(binary, ["run", "experiments/simulated.yaml", "--quiet", "--fresh", "ladder"], { cwd: project, stdio: "ignore" });
    const ended = new Promise((done) => { going.once("exit", done); });
    await p.go(`${base}#/run/hostile.smoke`);
    await p.until("document.querySelector('main').innerText.includes('It ended')");
    await ended;
    await p.go(`${base}#/run/simulated`);
    await p.until("document.querySelector('main').innerText.includes('It ended') && document.querySelector('main table')");
  });
  await check("a bundle without chunks and prompts", async () => {
    const made = run("publish", "experiments/simulated.yaml", "--author", "A", "--without", "chunks", "--without", "prompts");
    assert.equal(made.status, 0, made.stdout + made.stderr);
    const at = await serve(project, "published/simulated");
    const id = new URL(at).hash.match(/study\/([^/?]+)/)[1];
    const study = `${new URL(at).origin}/#/study/${id}`;
    for (const [view, wanted] of [["", ".cellmap td a"], ["/plots", "main .plot svg"], ["/plots?plot=latency&metric=tpot_ms", "main .plot svg"], ["/plots?plot=goodput", "main .plot svg"], ["/compare", "main .plot svg"], ["/data", "main tbody tr"]]) {
      await p.go(study + view);
      await p.until(`document.querySelector(${JSON.stringify(wanted)})`);
      assert.equal(await p.evaluate("document.querySelectorAll('.error').length"), 0, view);
    }
    await p.go(`${study}/history`);
    assert.match(await text(), /A bundle has no history/);
    assert.equal(await p.evaluate("document.querySelectorAll('.error').length"), 0, "no error");
    // What was left out on purpose is no damage.
    await p.go(`${study}/data?table=ladder.chunks`);
    await p.until("document.querySelector('main .error')");
    assert.match(await text(), /the bundle was published without chunks and prompts|the bundle was published without prompts and chunks/);
    assert.doesNotMatch(await text(), /fsck/);
    p.troubles.splice(0, p.troubles.length, ...p.troubles.filter((t) => !/^Failed to load resource/.test(t)));
  });
  await check("a study as a file", async () => {
    assert.equal(run("explore", "experiments/hostile.yaml", "--smoke", "--export", "hostile.html").status, 0);
    await p.go(`file://${project}/hostile.html`);
    assert.ok((await text()).includes(HOSTILE));
    await p.click(".cellmap td a");
    assert.match(await text(), /Requests over time/);
    await p.click("main tbody a[href*='/request/']");
    assert.match(await text(), /^Request \d+/);
    for (const view of ["plots", "plots?plot=latency&metric=e2e_latency_ms", "plots?plot=goodput", "plots?plot=time", "compare"]) {
      await p.go(`file://${project}/hostile.html#/study/experiments~hostile.smoke/${view}`);
      await p.until("document.querySelector('main .plot svg')");
    }
    // An address that leads nowhere leads back.
    await p.go(`file://${project}/hostile.html#/plots/hostile.smoke`);
    assert.match(await text(), /there is no view/);
    await p.click("main a");
    await p.until("document.querySelector('main .cellmap')");
  });
  const { seen } = await fuzz(base, { count: Number(process.env.QUESTIONS ?? 600), seed: Number(process.env.SEED ?? Date.now() % 1e6) });
  console.log(`ok questions that no page asks: ${JSON.stringify(seen)}`);
  await p.size(1280, 800);
  await damaged({ binary, folder: `${project}/damaged`, serve, page: p, done: (name) => { step += 1; console.log(`ok ${name}`); } });
  await reportPage("simulated", `file://${project}/reports/simulated/report.html`);
  await reportPage("figures", `file://${project}/reports/figures/report.html`);
  await reportPage("planted grid", `file://${project}/reports/planted-grid.smoke/report.html`);
  if (real) await studiesOf(real);
  console.log(`${step} views, all as they should be`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await browser.close();
  servers.forEach((server) => server.kill());
}
