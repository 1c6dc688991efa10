// Every study of the store: its question, its results, when and on what it was measured. Two selected studies are
// compared.

import { address, amend, h, here, replace } from "./dom.js";
import { get } from "./api.js";
import { ago, byLabel, plural, short } from "./format.js";

const VERDICTS = ["licensed", "refused", "undecided"];

// The maximum number of letters of a question in the list.
const QUESTION = 400;
const shortened = (text) => (text.length > QUESTION ? `${text.slice(0, QUESTION)}…` : text);

// The columns, and by what each is sorted.
const COLUMNS = [["study", (s) => nameOf(s)], ["claims", null], ["cells", null], ["measured cells", (s) => s.measurements], ["when", (s) => s.about?.measured_to ?? ""], ["engine", (s) => (s.about?.engines ?? []).join("; ")], ["machine", (s) => (s.about?.hosts ?? []).join("; ")], ["trail digest", null]];

const nameOf = (study) => (study.profile ? `${study.experiment} (${study.profile})` : study.experiment);

export async function studiesView(main) {
  const [list, runs] = await Promise.all([get(["studies"], {}, true), get(["runs"], {}, true).catch(() => ({ runs: [] }))]);
  const body = h("tbody");
  const head = h("tr");
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
    const title = nameOf(study);
    const { ok = 0, ...others } = study.counts;
    const excluded = study.excluded ?? 0;
    const states = Object.entries({ ok: ok - excluded, "excluded by a gate": excluded, ...others }).filter(([, n]) => n).map(([state, n]) => `${n} ${state}`).join(", ");
    const about = study.about ?? {};
    const claims = Object.entries(about.claims ?? {}).sort(([a], [b]) => VERDICTS.indexOf(a) - VERDICTS.indexOf(b)).map(([verdict, n]) => `${n} ${verdict}`).join(", ");
    const box = h("input", { type: "checkbox", "aria-label": `Compare ${title}`, onchange: (event) => tick(study, event.target) });
    const wrapped = (texts) => h("td", { class: "wrap" }, (texts ?? []).join("; ") || "–");
    return {
      study, text: [title, about.question, about.title, study.lock, study.trail, states, claims, ...(about.engines ?? []), ...(about.hosts ?? [])].join(" ").toLowerCase(),
      row: h("tr", {}, several ? h("td", { class: "screen" }, box) : null,
        h("td", { class: "long question" }, h("a", { href: address(["study", study.id]) }, title), " ", study.report === false ? null : h("a", { class: "screen", href: address(["study", study.id, "report"]), "aria-label": `Report of ${title}` }, "report"),
          about.question ? h("div", { class: "soft", title: about.question.length > QUESTION ? about.question : null }, shortened(about.question)) : null, h("div", { class: "soft digest screen" }, study.lock)),
        h("td", { class: "few" }, claims || "none"), h("td", { class: "few" }, states),
        h("td", { class: "number" }, study.measurements.toLocaleString("en-US"), study.measured_again ? h("div", { class: "soft" }, `${study.measured_again.toLocaleString("en-US")} again`) : null),
        h("td", { title: about.measured_from ? `from ${about.measured_from} to ${about.measured_to}` : null }, about.measured_to ? ago(about.measured_to) : "–"),
        wrapped(about.engines), wrapped(about.hosts), h("td", { class: "digest", title: study.trail }, short(study.trail))),
    };
  });
  const count = h("span", { class: "soft", role: "status" });
  const show = () => {
    const { q = "", sort, order } = here().parameters;
    const found = rows.filter((r) => q.toLowerCase().split(/\s+/).every((word) => r.text.includes(word)));
    const by = COLUMNS.find(([name, of]) => name === sort && of)?.[1];
    if (by) found.sort((a, b) => byLabel(by(a.study), by(b.study)) * (order === "desc" ? -1 : 1));
    replace(body, found.map((r) => r.row));
    replace(head, several ? h("th", { scope: "col", class: "screen" }, "compare") : null, COLUMNS.map(([name, of]) => {
      const state = sort === name ? (order === "desc" ? "descending" : "ascending") : null;
      // The newest and the largest come first, names in their order; a third click is the order of the locks.
      const first = name === "when" || name === "measured cells" ? "desc" : "asc";
      const next = () => {
        amend(sort !== name ? { sort: name, order: first } : (order ?? "asc") === first ? { order: first === "desc" ? "asc" : "desc" } : { sort: null, order: null });
        show();
        [...head.querySelectorAll("button")].find((button) => button.textContent.startsWith(name))?.focus({ preventScroll: true });
      };
      return h("th", { scope: "col", class: name === "measured cells" ? "number" : null, "aria-sort": state }, of && several ? h("button", { type: "button", onclick: next }, name + (state ? (state === "descending" ? " ↓" : " ↑") : "")) : name);
    }));
    count.textContent = found.length === rows.length ? plural(rows.length, "study", "studies") : `${found.length} of ${plural(rows.length, "study", "studies")}`;
  };
  show();
  replace(main, h("h1", {}, "Studies"),
    runs.runs.length ? h("p", {}, "Runs: ", runs.runs.slice(0, 8).map((run, i) => [i ? ", " : "", h("a", { href: address(["run", run.id]) }, run.id)])) : null,
    h("div", { class: "row" }, h("label", {}, "Search", h("input", { type: "search", value: here().parameters.q ?? "", oninput: (e) => { amend({ q: e.target.value || null }); show(); } })), count, several ? compare : null),
    rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Studies" }, h("table", { class: "studies" }, h("thead", {}, head), body)) : null,
    (list.broken ?? []).map((message) => h("div", { class: "error", role: "alert" }, h("p", {}, "A study cannot be shown: ", message), h("p", { class: "soft" }, "The other studies are not affected."))),
    rows.length || list.broken?.length ? null : h("p", {}, runs.runs.length ? "There is no lock of a study here. A run writes it when it ends: " : "No experiment has run here yet: ", h("code", {}, "benchtrail run EXPERIMENT"), runs.runs.length ? " takes existing measurements from the store." : " measures one."));
}
