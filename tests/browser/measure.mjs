// The cost of the explorer's page on a measured project: `node tests/browser/measure.mjs BINARY PROJECT [STUDY]`, with a
// release build. Prints, for the largest study or the named one,
//   the requests and received bytes of each view, and its time from an empty tab (median and worst of seven tabs),
//   the time of frames while a span is brushed over the tracks of the cell with the most requests,
//   the server's time to aggregate that cell, over the whole time and over a tenth of it.

import { spawn } from "node:child_process";
import { open, page } from "./chromium.mjs";

const [binary, project, wanted] = process.argv.slice(2);
const TABS = 7;
const FRAMES = 180;

const server = spawn(binary, ["explore", "--listen", "127.0.0.1:0"], { cwd: project, stdio: ["ignore", "pipe", "inherit"] });
const base = await new Promise((resolve) => { server.stdout.once("data", (text) => resolve(String(text).split("\n")[0])); });
const browser = await open();
const api = async (path) => (await fetch(`${base}api/v1/${path}`)).json();
const sorted = (list) => [...list].sort((a, b) => a - b);
const quantile = (list, q) => sorted(list)[Math.min(list.length - 1, Math.floor(q * list.length))];
const ms = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

async function opened(address) {
  const took = [];
  let cost = "";
  for (let i = 0; i < TABS; i += 1) {
    const p = await page(browser);
    await p.size(1280, 800);
    const begun = performance.now();
    await p.go(address);
    // Waits until it is painted, not only in the document.
    await p.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    took.push(performance.now() - begun);
    // A first visit; later tabs have the page's own files in their cache.
    if (i === 0) cost = `${p.asked.filter((u) => u.includes("/api/")).length} questions and ${p.asked.filter((u) => /^http/.test(u) && !u.includes("/api/")).length} files, ${(p.came.bytes / 1024).toFixed(0)} KiB`;
    await p.close();
  }
  return [took, cost];
}

try {
  const { studies } = await api("studies");
  const study = wanted ? studies.find((s) => s.id === wanted) : studies.sort((a, b) => b.measurements - a.measurements)[0];
  const id = encodeURIComponent(study.id);
  const { stages } = await api(`studies/${id}/cells`);
  const stage = stages.find((s) => s.class === "measurement");
  let largest = { rows: 0 };
  let rows = 0;
  for (const cell of stage.cells.filter((c) => c.status === "ok")) {
    const { rows_in_all: n } = await api(`studies/${id}/tables/${stage.name}.requests?cell=${encodeURIComponent(cell.at)}&from=0&to=1&columns=request_id`);
    rows += n;
    if (n > largest.rows) largest = { at: cell.at, rows: n };
  }
  console.log(`${study.id}: ${stage.cells.length} cells, ${rows} request rows; the largest cell has ${largest.rows}`);
  const cell = `${base}#/study/${id}/cell/${stage.name}?cell=${encodeURIComponent(largest.at)}`;
  for (const [name, address] of [["studies", `${base}#/`], ["cells", `${base}#/study/${id}`], ["throughput against latency", `${base}#/study/${id}/plots`], ["distributions", `${base}#/study/${id}/plots?plot=latency`],
    ["goodput", `${base}#/study/${id}/plots?plot=goodput`], ["data", `${base}#/study/${id}/data`], ["largest cell", cell]]) {
    const [took, cost] = await opened(address);
    console.log(`open ${name}: ${cost}; first ${ms(took[0])}, median ${ms(quantile(took, 0.5))}, worst ${ms(Math.max(...took))}`);
  }
  for (const [name, question] of [["the whole time", ""], ["a tenth of it", "tenth"]]) {
    const ask = `studies/${id}/activity?stage=${stage.name}&cell=${encodeURIComponent(largest.at)}`;
    const { whole } = await api(ask);
    const part = question ? `&from=${Math.round(whole[0] + (whole[1] - whole[0]) * 0.45)}&to=${Math.round(whole[0] + (whole[1] - whole[0]) * 0.55)}` : "";
    const took = [];
    for (let i = 0; i < TABS; i += 1) {
      const begun = performance.now();
      await api(`${ask}${part}&moments=${600 - i}`);
      took.push(performance.now() - begun);
    }
    console.log(`aggregate the largest cell over ${name}: median ${ms(quantile(took, 0.5))}, worst ${ms(Math.max(...took))}`);
  }
  const p = await page(browser);
  await p.size(1280, 800);
  await p.go(cell);
  const box = await p.evaluate("(() => { const r = document.querySelector('main canvas').getBoundingClientRect(); scrollBy(0, r.top - 100); const b = document.querySelector('main canvas').getBoundingClientRect(); return [b.left, b.top, b.width]; })()");
  await p.evaluate(`window.frames_ = []; (function next(before) { requestAnimationFrame((now) => { if (before) window.frames_.push(now - before); next(now); }); })()`);
  const mouse = (type, x) => p.send("Input.dispatchMouseEvent", { type, x, y: box[1] + 30, button: "left", buttons: 1, clickCount: 1 });
  await mouse("mousePressed", box[0] + box[2] * 0.2);
  await p.evaluate("window.frames_.length = 0");
  for (let i = 0; i < FRAMES; i += 1) {
    await mouse("mouseMoved", box[0] + box[2] * (0.2 + (0.6 * i) / FRAMES));
    await p.evaluate("new Promise(requestAnimationFrame)");
  }
  const frames = await p.evaluate("window.frames_");
  await mouse("mouseReleased", box[0] + box[2] * 0.8);
  console.log(`brush: ${frames.length} frames, median ${ms(quantile(frames, 0.5))}, p95 ${ms(quantile(frames, 0.95))}, ${((100 * frames.filter((f) => f < 17.5).length) / frames.length).toFixed(0)} % at 60 a second`);
} finally {
  await browser.close();
  server.kill();
}
