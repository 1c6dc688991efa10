// Every study of the store.

import { address, h, replace } from "./dom.js";
import { get } from "./api.js";
import { plural, short } from "./format.js";

export async function studiesView(main) {
  const [list, runs] = await Promise.all([get(["studies"], {}, true), get(["runs"], {}, true).catch(() => ({ runs: [] }))]);
  const body = h("tbody");
  const rows = list.studies.map((study) => {
    const title = study.profile ? `${study.experiment} (${study.profile})` : study.experiment;
    const states = Object.entries(study.counts).map(([state, n]) => `${n} ${state}`).join(", ");
    return {
      text: `${title} ${study.lock} ${study.trail} ${states}`.toLowerCase(),
      row: h("tr", {}, h("td", {}, h("a", { href: address(["study", study.id]) }, title)),
        h("td", {}, h("a", { href: address(["study", study.id, "report"]) }, "report")),
        h("td", {}, states), h("td", { class: "number" }, study.measurements.toLocaleString("en-US")),
        h("td", { class: "number" }, String(study.measured_again)), h("td", { class: "digest", title: study.trail }, short(study.trail)), h("td", { class: "soft" }, study.lock)),
    };
  });
  const show = (words) => replace(body, rows.filter((r) => r.text.includes(words.toLowerCase())).map((r) => r.row));
  show("");
  replace(main, h("h1", {}, "Studies"),
    runs.runs.length ? h("p", {}, "Runs: ", runs.runs.slice(0, 8).map((run, i) => [i ? ", " : "", h("a", { href: address(["run", run.id]) }, run.id)])) : null,
    h("div", { class: "row" }, h("label", {}, "Search", h("input", { type: "search", oninput: (e) => show(e.target.value) })), h("span", { class: "soft" }, plural(rows.length, "study", "studies"))),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["study", "", "cells", "measurements", "measured again", "trail digest", "lock"].map((t, i) => h("th", { scope: "col", class: i === 3 || i === 4 ? "number" : null }, t)))), body)),
    (list.broken ?? []).map((message) => h("p", { class: "error" }, message)),
    rows.length ? null : h("p", {}, "No experiment has run here yet. ", h("code", {}, "benchtrail run EXPERIMENT"), " measures one."));
}
