// Opens every view of real studies in a browser, clicks from a number to a request row and back, follows a run,
// and opens an exported study from the disk. Fails at the first thing that is not as it should be.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { open, page } from "./chromium.mjs";

const [binary, project] = process.argv.slice(2);
const pictures = process.env.PICTURES;
const HOSTILE = "<script>alert(1)</script>";

function run(...arguments_) {
  return spawnSync(binary, arguments_, { cwd: project, encoding: "utf8" });
}

// A simulated study whose labels are markup.
const file = `${project}/experiments/simulated.yaml`;
const yaml = readFileSync(file, "utf8");
writeFileSync(`${project}/experiments/hostile.yaml`, yaml.replace("experiment: simulated", "experiment: hostile").replace("    batched: {", `    "${HOSTILE}": {`));
console.log("measuring…");
run("run", "experiments/planted-grid.yaml", "--smoke", "--keep-going", "--quiet");
assert.equal(run("run", "experiments/hostile.yaml", "--smoke", "--quiet").status, 0);

const server = spawn(binary, ["explore", "--listen", "127.0.0.1:0"], { cwd: project, stdio: ["ignore", "pipe", "inherit"] });
const base = await new Promise((resolve) => { server.stdout.once("data", (text) => resolve(String(text).split("\n")[0])); });
const browser = await open();
const p = await page(browser);

let step = 0;
async function check(name, act) {
  await act();
  assert.deepEqual(p.troubles, [], `${name}: the page is in trouble`);
  const origin = new URL(base).origin;
  assert.deepEqual(p.asked.filter((u) => !u.startsWith(origin) && !/^(data|blob|file|about):/.test(u)), [], `${name}: it asked somebody else`);
  for (const [mode, width, height, dark] of [["phone", 375, 740, false], ["dark", 1280, 800, true], ["light", 1280, 800, false]]) {
    await p.size(width, height, dark);
    await new Promise((done) => { setTimeout(done, 120); });
    const over = await p.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert.ok(over <= 0, `${name}, ${mode}: ${over} pixels beyond the edge`);
    if (pictures) {
      mkdirSync(pictures, { recursive: true });
      await p.picture(`${pictures}/${String(step).padStart(2, "0")}-${name}-${mode}.png`);
    }
  }
  await accessible(name);
  step += 1;
  console.log(`ok ${name}`);
}

// What a tool for accessibility asks first: names of controls, one heading, labels, no positive tabindex, contrast of text.
async function accessible(name) {
  const wrong = await p.evaluate(`(() => {
    const found = [];
    const named = (e) => (e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.title || "").trim();
    for (const e of document.querySelectorAll("a[href], button, input, select, textarea")) if (e.checkVisibility() && !named(e)) found.push("no name: " + e.outerHTML.slice(0, 100));
    for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) found.push("tabindex " + e.tabIndex);
    for (const e of document.querySelectorAll("canvas, img, [role=img]")) if (!(e.getAttribute("aria-label") || e.alt)) found.push("no words: " + e.outerHTML.slice(0, 80));
    if (document.querySelectorAll("main").length !== 1) found.push("not one main");
    const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
    if (new Set(ids).size !== ids.length) found.push("an id twice: " + ids.find((id, i) => ids.indexOf(id) !== i));
    const light = (c) => { const v = c.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
    const colour = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const ground = (e) => { for (let n = e; n; n = n.parentElement) { const c = colour(getComputedStyle(n).backgroundColor); if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
    for (const e of [...document.querySelectorAll("p, a, td, th, dt, dd, h1, h2, h3, label, li, button, span")].slice(0, 1500)) {
      const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
      if (!own || !e.checkVisibility() || e.classList.contains("hatch") || e.closest("[aria-hidden]")) continue;
      const [a, b] = [light(colour(getComputedStyle(e).color).slice(0, 3)), light(ground(e))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < 4.5) found.push("contrast " + ((a + 0.05) / (b + 0.05)).toFixed(2) + ": " + e.textContent.slice(0, 40));
    }
    return [...new Set(found)].slice(0, 10);
  })()`);
  assert.deepEqual(wrong, [], `${name}: not accessible`);
}

const text = () => p.evaluate("document.getElementById('main').innerText");

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
  });
  await check("report", async () => {
    await p.click("nav a[href$='/report']");
    assert.ok(await p.evaluate("document.querySelectorAll('a.value').length > 500"));
  });
  const REPORT = await p.evaluate("location.hash");
  await check("number", async () => {
    await p.evaluate("[...document.querySelectorAll('a.value')].find((a) => /^\\d+\\.\\d/.test(a.textContent) && a.closest('td')).setAttribute('id', 'wanted')");
    await p.click("#wanted");
    await p.until("document.querySelector('#drawer .tree')");
    const told = await p.evaluate("document.getElementById('drawer').innerText");
    for (const part of ["Formula", "Table row", "Made of", "Raw rows", "gates", "The report prints it"]) assert.ok(told.includes(part), `${part} in ${told.slice(0, 500)}`);
  });
  await check("from the number to a request row", async () => {
    await p.click("#drawer a[href*='/request/']");
    assert.match(await text(), /^Request \d+/);
    assert.match(await text(), /sent to first token/);
  });
  await check("cell", async () => {
    await p.click("main p a[href*='/cell/']");
    assert.match(await text(), /Requests over time/);
    // A span chosen by keys is in the address, and filters the list.
    const all = await p.evaluate("document.querySelectorAll('main h2').length && [...document.querySelectorAll('main h2')].map((h) => h.textContent).find((t) => t.includes('request') && t.includes('of'))");
    await p.evaluate("document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: '+' }))");
    assert.match(await p.evaluate("location.hash"), /from=\d+&to=\d+/);
    const part = await p.evaluate("[...document.querySelectorAll('main h2')].map((h) => h.textContent).find((t) => t.includes('request') && t.includes('of'))");
    assert.notEqual(part, all);
  });
  await check("a value of a row", async () => {
    await p.click("main table a.number");
    await p.until("document.querySelector('#drawer h3')");
    await p.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
    await p.until("document.getElementById('drawer').hidden");
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
  });
  await check("markup as labels", async () => {
    await p.go(`${base}#/study/experiments~hostile.smoke`);
    assert.ok((await text()).includes(HOSTILE));
    await p.click(".cellmap td a");
    assert.ok((await text()).includes(HOSTILE));
    assert.equal(await p.evaluate("document.querySelectorAll('main script').length"), 0);
  });
  await check("a run that goes on", async () => {
    const going = spawn(binary, ["run", "experiments/simulated.yaml", "--quiet"], { cwd: project, stdio: "ignore" });
    const ended = new Promise((done) => { going.once("exit", done); });
    await p.go(`${base}#/run/hostile.smoke`);
    await p.until("document.querySelector('main').innerText.includes('It ended')");
    await ended;
    await p.go(`${base}#/run/simulated`);
    await p.until("document.querySelector('main').innerText.includes('It ended') && document.querySelector('main table')");
  });
  await check("a study as a file", async () => {
    assert.equal(run("explore", "experiments/hostile.yaml", "--smoke", "--export", "hostile.html").status, 0);
    await p.go(`file://${project}/hostile.html`);
    assert.ok((await text()).includes(HOSTILE));
    await p.click(".cellmap td a");
    assert.match(await text(), /Requests over time/);
    await p.click("main tbody a[href*='/request/']");
    assert.match(await text(), /^Request \d+/);
  });
  console.log(`${step} views, all as they should be`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await browser.close();
  server.kill();
}
