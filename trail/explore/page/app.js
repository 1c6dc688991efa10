// The page: the address after the `#` selects a view, and its parameters select what the view shows.

import { address, h, here, replace, say, sentence, viewElement } from "./dom.js";
import { get, isFile, openData, renew } from "./api.js";
import { showDrawer, watchEscape } from "./drawer.js";
import { studiesView } from "./studies.js";
import { gridView } from "./grid.js";
import { reportView } from "./report.js";
import { cellView } from "./cell.js";
import { requestView } from "./request.js";
import { plotsView } from "./plots.js";
import { contrastView, pairView } from "./compare.js";
import { historyView } from "./history.js";
import { dataView, objectView } from "./data.js";
import { runView } from "./live.js";
import { watchScrolling } from "./scrolling.js";

const main = document.getElementById("main");
const drawer = document.getElementById("drawer");
let shown = null;
let opener = null;
let leave = new AbortController();
// Where a reader continues whose address leads nowhere.
let home = { href: address([]), text: "Show all studies" };

async function view(main, segments, parameters) {
  const [kind, study, what, stage] = segments;
  if (kind === "study" && study) {
    if (!what) return gridView(main, study);
    if (what === "report") return reportView(main, study);
    if (what === "plots") return plotsView(main, study);
    if (what === "compare") return contrastView(main, study);
    if (what === "history" && !isFile()) return historyView(main, study);
    if (what === "data") return dataView(main, study);
    if (what === "cell" && stage) return cellView(main, study, stage);
    if (what === "request" && stage) return requestView(main, study, stage);
  }
  if (kind === "run" && study && !isFile()) return runView(main, study, leave.signal);
  if (kind === "compare" && study && what) return pairView(main, study, what);
  if (kind === "object" && study) return objectView(main, study);
  if (kind === undefined || kind === "studies") return studiesView(main);
  throw Object.assign(new Error(`there is no view ${segments.join("/")}`), { hint: "The address may be incomplete." });
}

async function navigate(study, what) {
  const nav = document.getElementById("nav");
  const [view] = here().segments;
  if (!study) { replace(nav, isFile() || view === undefined || view === "studies" ? null : h("a", { href: address([]) }, "Studies")); return; }
  const tab = (name, path, own) => h("a", { href: address(["study", study, ...path]), "aria-current": own ? "page" : null }, name);
  replace(nav, isFile() ? null : h("a", { href: address([]) }, "Studies"), h("span", { class: "where" }, study.split("~").at(-1)), tab("Cells", [], !what), tab("Plots", ["plots"], what === "plots"), tab("Compare", ["compare"], what === "compare"), isFile() ? null : tab("History", ["history"], what === "history"), tab("Report", ["report"], what === "report"), tab("Data", ["data"], what === "data"));
}

// The view that the address selects, without the number that is open beside it.
function placeOf({ segments, parameters: { why, ...others } }) {
  return JSON.stringify([segments, others]);
}

// Each navigation has a number. What a view still reads after a later one began is dropped.
let turn = 0;

// Draws the view of the address into an element of its own; returns whether it is still the one that the reader wants.
// If it fails, `fail` shows the error there. `before` is done first.
async function draw(fail, before = null) {
  const mine = turn += 1;
  const { segments, parameters } = here();
  leave.abort();
  leave = new AbortController();
  const own = viewElement(main, () => turn === mine);
  main.setAttribute("aria-busy", "true");
  try {
    await before?.();
    await view(own, segments, parameters);
  } catch (error) {
    if (turn === mine) fail(own, error);
  }
  if (turn !== mine) return false;
  main.removeAttribute("aria-busy");
  document.title = `${main.querySelector("h1")?.textContent ?? "Explorer"} · Benchtrail`;
  return true;
}

const failed = (own, error) => replace(own, h("div", { class: "error", role: "alert" }, h("h1", {}, "This cannot be shown"), h("p", {}, error.message), error.hint ? h("p", { class: "soft" }, error.hint) : null, h("p", {}, h("a", { href: home.href }, home.text))));

async function show() {
  const { segments, parameters } = here();
  const study = segments[0] === "study" ? segments[1] : segments[0] === "object" ? parameters.study : null;
  const { why, ...others } = parameters;
  const place = placeOf({ segments, parameters });
  // A step back returns to where the reader was; anything else starts at the top.
  const y = history.state?.y ?? 0;
  navigate(study, segments[0] === "object" ? "object" : segments[2]);
  // After closing the drawer, the reader continues where it was opened.
  if (why && drawer.hidden) opener = document.activeElement;
  const closed = !why && !drawer.hidden;
  drawer.dataset.asked = why ?? "";
  const following = showDrawer(study, why, drawer);
  if (place !== shown) {
    shown = place;
    say("Reading…");
    if (!await draw(failed, segments[0] === "study" && segments[1] ? () => renew(segments[1]) : null)) return;
    say("");
    if (y || (!others.line && !others.mark)) scrollBackTo(y);
    if (!here().parameters.why) main.focus({ preventScroll: true });
  } else history.replaceState({ y: window.scrollY }, "");
  await following;
  if (closed && opener?.isConnected) opener.focus({ preventScroll: true });
  if (why && !drawer.hidden) drawer.querySelector("button")?.focus({ preventScroll: true });
  document.documentElement.dataset.ready = place + (why ?? "");
}

// Draws the same view with other parameters: the reader stays where it was. If that fails, the view before stays, too.
async function showAgain() {
  const place = placeOf(here());
  let failure = "";
  if (!await draw((_, error) => { failure = sentence(error); })) return;
  say(failure);
  document.documentElement.dataset.ready = place;
}

// Scrolls to where the reader was. Pictures that arrive late make the page longer, so this repeats until it is long
// enough, or until the reader moves.
function scrollBackTo(y) {
  window.scrollTo(0, y);
  if (window.scrollY >= y - 1) return;
  const watch = new ResizeObserver(() => { window.scrollTo(0, y); if (window.scrollY >= y - 1) watch.disconnect(); });
  watch.observe(main);
  for (const event of ["wheel", "keydown", "pointerdown", "hashchange"]) window.addEventListener(event, () => watch.disconnect(), { once: true, passive: true });
}

// Keeps with every step of the history how far the reader had scrolled.
function watchPlace() {
  history.scrollRestoration = "manual";
  let waiting = null;
  const keep = () => { waiting = null; if (!main.hasAttribute("aria-busy")) history.replaceState({ y: window.scrollY }, ""); };
  window.addEventListener("scroll", () => { waiting ??= setTimeout(keep, 150); }, { passive: true });
  window.addEventListener("hashchange", () => { clearTimeout(waiting); waiting = null; });
}

async function start() {
  const file = await openData();
  if (file) {
    home = { href: address(["study", file.study]), text: "Open the study" };
    if (!location.hash) history.replaceState(null, "", address(["study", file.study]));
    if (file.left_out.length) document.querySelector("header").append(h("span", { class: "warn" }, `This file leaves out: ${file.left_out.join("; ")}.`));
  } else await get([]).catch(() => null);
  watchEscape(drawer);
  watchScrolling(main);
  window.addEventListener("hashchange", show);
  // What a view changed in its address is already shown.
  document.addEventListener("amended", () => { shown = placeOf(here()); });
  document.addEventListener("reshow", showAgain);
  watchPlace();
  await show();
}

start();
