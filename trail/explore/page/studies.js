// Every study of the store: its question, its results, when and on what it was measured. Two selected studies are
// compared.

import { address, h, replace } from "./dom.js";
import { get } from "./api.js";
import { ago, plural, short } from "./format.js";

const VERDICTS = ["licensed", "refused", "undecided"];

// The parts with no use or no room in print.
const ON_SCREEN = ["compare", "report", "measured again", "lock"];

// The maximum number of letters of a question in the list.
const QUESTION = 400;
const shortened = (text) => (text.length > QUESTION ? `${text.slice(0, QUESTION)}…` : text);

export async function studiesView(main) {
  const [list, runs] = await Promise.all([get(["studies"], {}, true), get(["runs"], {}, true).catch(() => ({ runs: [] }))]);
  const body = h("tbody");
  const ticked = [];
  const compare = h("button", { type: "button", disabled: true, onclick: () => { location.hash = address(["compare", ...older()]); } }, "Compare the two ticked studies");
  // The one measured first is the baseline.
  const older = () => [...ticked].sort((a, b) => String(a.about?.measured_from ?? "").localeCompare(String(b.about?.measured_from ?? ""))).map((s) => s.id);
  const tick = (study, box) => {
    if (box.checked) ticked.push(study);
    else ticked.splice(ticked.indexOf(study), 1);
    compare.disabled = ticked.length !== 2;
  };
  const several = list.studies.length > 1;
  const rows = list.studies.map((study) => {
    const title = study.profile ? `${study.experiment} (${study.profile})` : study.experiment;
    const states = Object.entries(study.counts).map(([state, n]) => `${n} ${state}`).join(", ");
    const about = study.about ?? {};
    const claims = Object.entries(about.claims ?? {}).sort(([a], [b]) => VERDICTS.indexOf(a) - VERDICTS.indexOf(b)).map(([verdict, n]) => `${n} ${verdict}`).join(", ");
    const box = h("input", { type: "checkbox", "aria-label": `Compare ${title}`, onchange: (event) => tick(study, event.target) });
    return {
      text: [title, about.question, about.title, study.lock, study.trail, states, claims, ...(about.engines ?? []), ...(about.hosts ?? [])].join(" ").toLowerCase(),
      row: h("tr", {}, several ? h("td", { class: "screen" }, box) : null, h("td", { class: "long question" }, h("a", { href: address(["study", study.id]) }, title), about.question ? h("div", { class: "soft", title: about.question.length > QUESTION ? about.question : null }, shortened(about.question)) : null),
        h("td", { class: "screen" }, h("a", { href: address(["study", study.id, "report"]), "aria-label": `Report of ${title}` }, "report")), h("td", {}, claims || "no claims"), h("td", { class: "wrap" }, states),
        h("td", { class: "number" }, study.measurements.toLocaleString("en-US")), h("td", { class: "number screen" }, String(study.measured_again)),
        h("td", { title: about.measured_from ? `from ${about.measured_from} to ${about.measured_to}` : null }, about.measured_to ? ago(about.measured_to) : "–"),
        h("td", { class: "wrap" }, (about.engines ?? []).join("; ") || "–"), h("td", { class: "wrap" }, (about.hosts ?? []).join("; ") || "–"), h("td", { class: "digest", title: study.trail }, short(study.trail)), h("td", { class: "soft screen" }, study.lock)),
    };
  });
  const count = h("span", { class: "soft", role: "status" });
  const show = (words) => {
    const found = rows.filter((r) => words.toLowerCase().split(/\s+/).every((word) => r.text.includes(word)));
    replace(body, found.map((r) => r.row));
    count.textContent = found.length === rows.length ? plural(rows.length, "study", "studies") : `${found.length} of ${plural(rows.length, "study", "studies")}`;
  };
  show("");
  replace(main, h("h1", {}, "Studies"),
    runs.runs.length ? h("p", {}, "Runs: ", runs.runs.slice(0, 8).map((run, i) => [i ? ", " : "", h("a", { href: address(["run", run.id]) }, run.id)])) : null,
    h("div", { class: "row" }, h("label", {}, "Search", h("input", { type: "search", oninput: (e) => show(e.target.value) })), count, several ? compare : null),
    rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Studies" }, h("table", { class: "studies" }, h("thead", {}, h("tr", {}, [...(several ? ["compare"] : []), "study", "report", "claims", "cells", "measured cells", "measured again", "when", "engine", "machine", "trail digest", "lock"].map((t) => h("th", { scope: "col", class: [t.startsWith("measured") ? "number" : null, ON_SCREEN.includes(t) ? "screen" : null].filter(Boolean).join(" ") || null }, t)))), body)) : null,
    (list.broken ?? []).map((message) => h("div", { class: "error", role: "alert" }, h("p", {}, "A study cannot be shown: ", message), h("p", { class: "soft" }, "The other studies are not affected."))),
    rows.length || list.broken?.length ? null : h("p", {}, runs.runs.length ? "There is no lock of a study here. A run writes it when it ends: " : "No experiment has run here yet: ", h("code", {}, "benchtrail run EXPERIMENT"), runs.runs.length ? " takes existing measurements from the store." : " measures one."));
}
