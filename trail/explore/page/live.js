// A run in progress, from its event log. The page only listens; the server reads the log once a second.

import { address, alertOf, facts, h, replace, say, select, sentence } from "./dom.js";
import { follow, get, post } from "./api.js";
import { digits, plural, seconds } from "./format.js";

const KEPT = 60;

export async function runView(main, id, signal) {
  const { runs } = await get(["runs"], {}, true);
  const known = runs.find((run) => run.id === id);
  const state = { began: null, plan: null, open: 0, cells: new Map(), ended: null, messages: [], measured: [], current: null, left: null, log: [], rates: null };
  let shown = null;
  const grid = h("div");
  const top = h("div");
  const rates = h("div");
  const engine = h("div");
  const log = h("ul");
  const stop = stopper(id, () => !state.ended);
  const age = () => {
    const quiet = known ? Date.now() / 1000 - known.modified_unix_s : 0;
    return state.ended || quiet < 120 ? null : h("p", { class: "note" }, `Nothing was written to its log for ${seconds(quiet)} before this page opened: the run may have ended silently.`);
  };
  // Events arrive while a reader moves with Tab: the focused element keeps the focus.
  const stops = (box) => [...box.querySelectorAll("a[href], select, summary, [tabindex]")];
  const draw = () => {
    const within = [top, grid, rates, engine, log].find((box) => box.contains(document.activeElement));
    const at = within ? stops(within).indexOf(document.activeElement) : -1;
    redraw();
    if (at >= 0) stops(within)[at]?.focus({ preventScroll: true });
  };
  const redraw = () => {
    replace(top, h("h1", {}, `Run ${id}`), summary(state, study), age());
    const stages = state.began?.stages ?? [];
    const stage = stages.find((s) => s.name === shown) ?? stages.find((s) => s.kind === "load") ?? stages[0];
    replace(grid, stage ? [select("Stage", stages.map((s) => s.name), stage.name, (value) => { shown = value; draw(); }), states(stage, state)] : null);
    replace(rates, rolling(state), measured(state.measured));
    replace(engine, state.log.length ? [h("h2", {}, `What ${state.log.at(-1).cell} writes to its log`), h("pre", { tabindex: "0", "aria-label": "Engine's log" }, state.log.slice(-KEPT).map((l) => `${l.line}\n`))] : null);
    stop.hidden = Boolean(state.ended) || !state.began?.stop;
    replace(log, state.messages.slice(-KEPT).reverse().map((m) => h("li", { class: m.bad ? "bad" : null }, m.text)));
  };
  replace(main, top, stop, h("section", { "aria-label": "Rates" }, rates), h("section", { "aria-label": "Engine" }, engine), h("section", { "aria-label": "Cells" }, grid), h("h2", {}, "Events"), log,
    h("p", {}, h("a", { href: address(["studies"]) }, "All studies")));
  // The study of the run, as soon as the run has written its lock.
  let study = null;
  const look = () => get(["studies"], {}, true).then(({ studies }) => { study = studyOf(studies, state.began)?.id ?? null; draw(); }).catch(() => {});
  let looked = false;
  draw();
  let due = false;
  follow(["runs", id, "events"], {}, signal, (messages) => {
    for (const [kind, event] of messages) {
      if (kind === "measured") state.measured.push(event);
      // An event of a damaged log may lack required fields.
      else try { hear(state, event); } catch { state.messages.push({ text: "An event of the run's log cannot be read.", bad: true }); }
    }
    if (state.measured.length > 500) state.measured = state.measured.slice(-500);
    if (state.ended && !looked) { looked = true; look(); }
    if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); }
  }).then(() => say("The server ended."), (error) => {
    if (signal.aborted) return;
    if (state.began) { say(error.message); return; }
    replace(main, h("h1", {}, `Run ${id}`), alertOf(error), h("p", {}, h("a", { href: address(["studies"]) }, "All studies")));
  });
}

// The study that a run wrote: its lock names the experiment and the profile. Of several, it is the one beside the run's
// file.
function studyOf(studies, began) {
  const same = studies.filter((s) => s.experiment === began?.experiment && (s.profile ?? null) === (began?.profile ?? null));
  const stem = (path, ...ends) => ends.reduce((rest, end) => (end && rest.endsWith(end) ? rest.slice(0, -end.length) : rest), path);
  const file = stem(began?.file ?? "", ".yaml", ".yml");
  const beside = same.sort((a, b) => b.lock.length - a.lock.length).find((s) => `/${file}`.endsWith(`/${stem(s.lock, ".lock", s.profile && `.${s.profile}`)}`));
  return beside ?? (same.length === 1 ? same[0] : null);
}

function hear(state, event) {
  const at = (text, bad = false) => { state.messages.push({ text, bad }); if (state.messages.length > 4 * KEPT) state.messages.splice(0, KEPT); };
  const kind = event.event;
  if (kind === "run-began") {
    Object.assign(state, { began: event, plan: null, open: 0, cells: new Map(), ended: null, measured: [], current: null, left: null, log: [], rates: null });
    at(`The run of ${event.experiment} began.`);
  } else if (kind === "plan-made") {
    state.plan = event;
    state.open = event.run + event.after;
    at(`${event.cells} cells: ${event.cached} cached, ${event.run} to run, ${event.after} decided later, ${event.blocked} blocked.`);
  } else if (kind === "cells-left") {
    state.open = Object.values(event.stages).reduce((sum, n) => sum + n, 0);
  } else if (kind === "cell-started") {
    state.cells.set(event.cell, { status: "running", attempt: event.attempt });
    state.current = { cell: event.cell };
  } else if (kind === "cell-progress") {
    state.current = event;
    if (event.rates) state.rates = event;
    for (const line of event.log ?? []) state.log.push({ cell: event.cell, line });
    if (state.log.length > 4 * KEPT) state.log.splice(0, KEPT);
  } else if (kind === "cell-ended") {
    state.cells.set(event.cell, event);
    state.open = Math.max(0, state.open - 1);
    state.left = event.left_s ?? null;
    if (state.rates?.cell === event.cell) state.rates = null;
    if (event.status !== "ok" && !event.cached) at(`${event.cell}: ${event.status}${event.reason ? `, ${event.reason}` : ""}`, event.status !== "skipped");
    else if (!event.cached) at(`${event.cell} took ${seconds(event.seconds)}.`);
  } else if (kind === "run-ended") {
    state.ended = event;
    at(`The run ended: ${Object.entries(event.counts).map(([s, n]) => `${n} ${s}`).join(", ")}.`);
  } else if (kind === "warning") at(event.cell && !event.message.startsWith(`${event.cell}:`) ? `${event.cell}: ${event.message}` : event.message, true);
  else if (kind === "waiting") at(`Waiting for ${event.exclusive}, which another process holds.`);
  else if (kind === "resting") at(`Resting ${seconds(event.seconds)} (${event.rest}).`);
  else if (kind === "replanned") at(`${event.cell} started with a different descriptor; the cells that depend on it were planned again.`);
  else if (kind === "resource-started") { state.log = []; at(`${event.cell} is ready.`); }
  else if (kind === "resource-released") at(`${event.cell} stopped.`);
}

function summary(state, study) {
  if (state.ended) return h("p", {}, "It ended: ", Object.entries(state.ended.counts).map(([s, n]) => `${n} ${s}`).join(", "), ". ", study ? [h("a", { href: address(["study", study]) }, "Its study"), ", ", h("a", { href: address(["study", study, "report"]) }, "its report")] : ["Its study is among the ", h("a", { href: address(["studies"]) }, "studies")], ".");
  if (!state.plan) return h("p", { class: "soft" }, "Waiting for its plan.");
  const done = state.plan.cells - state.open;
  const { current } = state;
  return [h("p", {}, `${done} of ${plural(state.plan.cells, "cell")} ended or were cached`, left(state)),
    h("progress", { max: String(state.plan.cells), value: String(done), "aria-label": "Cells that ended or were cached" }),
    current ? h("p", { class: "soft" }, current.cell, current.what ? `: ${digits(current.done)}${current.total ? ` of ${digits(current.total)}` : ""} ${current.what}` : "") : null];
}

// The time left, computed as the run does for its terminal: the cells left in each stage times the shortest and the
// longest cell of that stage so far.
function left(state) {
  if (!state.left) return "; too little has run to say how long the rest takes.";
  const [least, most] = state.left.map(seconds);
  return least === most ? `; about ${least} left.` : `; ${least} to ${most} left, if no cell takes longer than those so far.`;
}

// How far a cell is: its requests, or its time if a duration ends it.
function progressOf({ done, total, rates: { elapsed_s: elapsed, planned_s: planned } }) {
  if (total !== null && total !== undefined) return `${digits(done)} of ${digits(total)}`;
  return planned ? `${digits(done)} in ${digits(elapsed ?? 0, 3)} of ${digits(planned, 3)} s` : digits(done);
}

// The rolling figures of the cell being measured, as in the terminal.
function rolling({ rates, ended }) {
  if (!rates || ended) return null;
  const r = rates.rates;
  const value = (v, unit) => (v === undefined || v === null ? null : `${digits(v, 3)} ${unit}`);
  return [h("h2", {}, `Now: ${rates.cell}`), facts([["requests", progressOf(rates)], ["output", value(r.output_throughput, "tok/s")], ["TTFT p50", value(r.ttft_ms_p50, "ms")], ["TTFT p95", value(r.ttft_ms_p95, "ms")], ["errors so far", String(r.errors)], ["in flight", String(r.in_flight)]]),
    h("p", { class: "soft" }, `Over the last ${seconds(r.window_s)}: ${plural(r.ended, "request")} ended; tokens and times come from the ${digits(r.looked_into)} answers that were read while the load runs. The results come from all rows, when the cell is over.`)];
}

// The only action: it has the effect of Ctrl-C in the run's terminal.
function stopper(id, goesOn) {
  const token = h("input", { type: "text", size: "34", autocomplete: "off", spellcheck: "false", "aria-describedby": "stop-hint" });
  const told = h("p", { role: "status" });
  const send = async () => {
    if (!goesOn()) return;
    try {
      const reply = await post(["runs", id, "stop"], { token: token.value.trim() });
      told.textContent = `The run has been asked to stop, ${reply.how}.`;
    } catch (error) { told.textContent = sentence(error); }
  };
  return h("details", { hidden: true }, h("summary", {}, "Stop this run"), h("p", { id: "stop-hint" }, `This does what Ctrl-C does in its terminal. The run's token is in reports/${id}/stop-token, which only the user who started the run can read.`),
    h("div", { class: "row" }, h("label", {}, "The run's token", token), h("button", { type: "button", onclick: send }, "Stop the run")), told);
}

function states(stage, state) {
  // The log does not mention cells that were cached from the start: until it ends, they look the same as waiting ones.
  const silent = state.ended ? "cached or not executed" : "cached or waiting";
  const boxes = stage.cells.map((at) => {
    const name = at ? `${stage.name}[${at}]` : stage.name;
    const cell = state.cells.get(name);
    const status = cell ? cell.status : silent;
    const title = `${name}\n${status}${cell?.reason ? `: ${cell.reason}` : ""}`;
    return h("span", { class: `chip ${status === "ok" ? "" : `hatch hatch-${cell ? status : "waiting"}`}`, title, style: status === "ok" ? { background: "var(--ok)" } : {} });
  });
  const counts = new Map();
  for (const at of stage.cells) {
    const status = state.cells.get(at ? `${stage.name}[${at}]` : stage.name)?.status ?? silent;
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  const words = [...counts].map(([s, n]) => `${n} ${s}`).join(", ");
  return h("figure", {}, h("div", { role: "img", "aria-label": `Stage ${stage.name}: ${words}` }, boxes), h("figcaption", {}, words));
}

function measured(list) {
  if (!list.length) return null;
  const rows = list.slice(-8).reverse();
  const cell = (value) => h("td", { class: "number" }, digits(value, 3));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["cell just measured", "requests", "errors", "output tok/s", "TTFT p50 ms", "TTFT p95 ms"].map((t, i) => h("th", { scope: "col", class: i ? "number" : null }, t)))),
    h("tbody", {}, rows.map((r) => h("tr", {}, h("td", {}, r.cell), cell(r.requests), h("td", { class: `number ${r.errors ? "bad" : ""}` }, String(r.errors)), cell(r.output_throughput), cell(r.ttft_ms_p50), cell(r.ttft_ms_p95))))));
}
