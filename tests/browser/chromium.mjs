// A headless Chromium over a pipe of the devtools protocol: needs only node and the browser.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export async function open(binary = process.env.CHROMIUM ?? "chromium") {
  const profile = mkdtempSync(join(tmpdir(), "explorer-"));
  const child = spawn(binary, ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
    `--user-data-dir=${profile}`, "--remote-debugging-pipe", "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const waiting = new Map();
  const listeners = [];
  let rest = "";
  let last = 0;
  child.stdio[4].setEncoding("utf8").on("data", (text) => {
    const messages = (rest + text).split("\0");
    rest = messages.pop();
    for (const message of messages.map((m) => JSON.parse(m))) {
      const asked = waiting.get(message.id);
      waiting.delete(message.id);
      if (asked) message.error ? asked.reject(new Error(`${asked.method}: ${message.error.message}`)) : asked.resolve(message.result);
      else listeners.forEach((hear) => hear(message));
    }
  });
  const send = (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
    last += 1;
    waiting.set(last, { resolve, reject, method });
    child.stdio[3].write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
  });
  const close = async () => {
    await send("Browser.close").catch(() => {});
    await new Promise((done) => { child.exitCode === null ? child.once("exit", done) : done(); });
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  return { send, listeners, close };
}

// A page that records its errors: exceptions, errors on its console, and policy violations. If a folder is given, the
// page's scripts and styles come from there and not from the server, so that a change can be seen without a build.
export async function page(browser, folder = process.env.PAGE) {
  const { targetId } = await browser.send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => browser.send(method, params, sessionId);
  const troubles = [];
  const asked = [];
  // Bytes received over the network, headers and bodies.
  const came = { bytes: 0 };
  browser.listeners.push((message) => {
    if (message.sessionId !== sessionId) return;
    const { method, params } = message;
    if (method === "Runtime.exceptionThrown") troubles.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error") troubles.push(`${params.entry.text} ${params.entry.url ?? ""}`);
    if (method === "Page.javascriptDialogOpening") { troubles.push(`a dialog opened: ${params.message}`); send("Page.handleJavaScriptDialog", { accept: false }); }
    if (method === "Network.requestWillBeSent") asked.push(params.request.url);
    if (method === "Network.loadingFinished") came.bytes += params.encodedDataLength;
    if (method === "Fetch.requestPaused") {
      const name = new URL(params.request.url).pathname.split("/").at(-1);
      const type = name.endsWith(".js") ? "text/javascript" : "text/css";
      const body = readFileSync(join(folder, name)).toString("base64");
      send("Fetch.fulfillRequest", { requestId: params.requestId, responseCode: 200, responseHeaders: [{ name: "content-type", value: type }], body });
    }
  });
  for (const domain of ["Runtime", "Log", "Page", "Network"]) await send(`${domain}.enable`);
  if (folder) await send("Fetch.enable", { patterns: [{ urlPattern: "http://*/*.js" }, { urlPattern: "http://*/*.css" }] });
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  };
  const until = async (expression, patience = 20000) => {
    const end = Date.now() + patience;
    for (;;) {
      if (await evaluate(`Boolean(${expression})`).catch(() => false)) return;
      if (Date.now() > end) throw new Error(`never came true: ${expression}\n${troubles.join("\n")}\n${await evaluate("document.body?.innerText.slice(0, 600)").catch(() => "")}`);
      await new Promise((done) => { setTimeout(done, 40); });
    }
  };
  // The page signals when it shows what its address requests.
  const settled = () => until(`document.documentElement?.dataset.ready !== undefined && !document.querySelector("[aria-busy]")
    && document.documentElement.dataset.ready.startsWith(JSON.stringify([location.hash.replace(/^#\\/?/, "").split("?")[0].split("/").filter(Boolean).map(decodeURIComponent)]).slice(0, -1))`);
  const go = async (url) => {
    await evaluate("delete document.documentElement.dataset.ready");
    const before = await evaluate("location.href");
    if (before.split("#")[0] === url.split("#")[0] && url.includes("#")) await evaluate(`location.href = ${JSON.stringify(url)}`);
    else await send("Page.navigate", { url });
    if (before !== url) await settled();
  };
  const click = async (selector) => {
    await until(`document.querySelector(${JSON.stringify(selector)})`);
    await evaluate("delete document.documentElement.dataset.ready");
    await evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
    await settled();
  };
  const KEYS = { Tab: 9, Enter: 13, Escape: 27 };
  const press = async (key) => {
    const common = { key, code: key, windowsVirtualKeyCode: KEYS[key] };
    await send("Input.dispatchKeyEvent", { type: "rawKeyDown", ...common });
    if (key === "Enter") await send("Input.dispatchKeyEvent", { type: "char", text: "\r", ...common });
    await send("Input.dispatchKeyEvent", { type: "keyUp", ...common });
  };
  const size = (width, height, dark = false, media = "") => Promise.all([
    send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false }),
    send("Emulation.setEmulatedMedia", { media, features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] }),
  ]);
  const picture = async (file) => {
    const { data } = await send("Page.captureScreenshot", { format: "png" });
    writeFileSync(file, Buffer.from(data, "base64"));
  };
  const close = () => browser.send("Target.closeTarget", { targetId });
  return { send, close, evaluate, until, settled, go, click, press, size, picture, troubles, asked, came };
}
