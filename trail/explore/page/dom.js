// Elements of the page. Text always becomes text nodes, so no label of a study is ever read as HTML.

// Characters that change the direction of text or move a cursor: a label must not affect the display of its neighbours.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// A text of a study with such characters escaped.
export function plainText(text) {
  return text.replace(UNSEEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// Attributes with text for readers.
const READ = ["title", "alt", "aria-label"];

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  // Long ones scroll, so they must be reachable by keyboard.
  if (tag === "pre") element.tabIndex = 0;
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : READ.includes(name) ? plainText(String(value)) : value);
  }
  // Input stays as it was typed.
  element.append(...(tag === "textarea" ? children : flat(children)));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) => (typeof child === "string" ? plainText(child) : child));
}

// The element that a view draws into. Its first content takes the place of the view before in `main`, unless the reader has
// moved on: then it stays out of the page, however late it comes.
const entrances = new WeakMap();

export function viewElement(main, isCurrent) {
  const own = h("div", { class: "view" });
  entrances.set(own, { main, isCurrent });
  return own;
}

// Replaces what an element holds. A control that had the focus keeps it: the new one of the same name gets it, at once or
// as soon as it is there. If it does not come back, its neighbour `data-or` gets the focus.
let sought = null;

export function replace(element, ...children) {
  const entrance = entrances.get(element);
  if (entrance && !entrance.isCurrent()) return;
  const focus = document.activeElement;
  const own = (entrance?.main ?? element).contains(focus) ? focus.dataset?.control : undefined;
  if (own !== undefined) sought = [own, focus.dataset.or];
  element.replaceChildren(...flat(children));
  if (entrance && !element.isConnected) entrance.main.replaceChildren(element);
  if (!element.isConnected) return;
  // The reader went on to something else.
  if (document.activeElement !== document.body) sought = null;
  for (const name of sought ?? []) {
    const control = name === undefined ? null : element.querySelector(`[data-control="${CSS.escape(name)}"]`);
    if (!control) continue;
    sought = null;
    control.focus({ preventScroll: true });
    return;
  }
}

// An error and its remedy, in one line.
export const sentence = (error) => [error.message, error.hint].filter(Boolean).join("; ");

// The same as a box that screen readers announce at once.
export function alertOf(error) {
  return h("div", { class: "error", role: "alert" }, h("p", {}, error.message), error.hint ? h("p", { class: "soft" }, error.hint) : null);
}

export function say(text) {
  document.getElementById("status").textContent = plainText(text);
}

export function select(label, options, value, onchange) {
  const list = options.map((option) => {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    return h("option", { value: key, selected: key === value }, text);
  });
  return h("label", {}, label, h("select", { "data-control": label, onchange: (event) => onchange(event.target.value) }, list));
}

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", {}, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// A colour of the style sheet, for canvases. A picture needs thousands of them, so each is looked up once per colour
// scheme.
const inks = new Map();
for (const change of ["(prefers-color-scheme: dark)", "print"]) matchMedia(change).addEventListener("change", () => inks.clear());

export function ink(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}

// Coordinates that may break after a comma, but not within a label.
export function breakable(text) {
  return String(text).split(",").flatMap((part, i, all) => (i + 1 < all.length ? [`${part},`, h("wbr")] : [part]));
}

// The address of a view: segments and parameters after the `#`.
export function address(segments, parameters = {}) {
  const known = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(known).toString();
  return `#/${segments.map(encodeURIComponent).join("/")}${query && `?${query}`}`;
}

// The current address: segments and parameters.
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const decode = (s) => { try { return decodeURIComponent(s); } catch { return s; } };
  return {
    segments: path.split("/").filter(Boolean).map(decode),
    parameters: Object.fromEntries(new URLSearchParams(query)),
  };
}

// The same view with some parameters changed.
export function changed(parameters) {
  const now = here();
  return address(now.segments, { ...now.parameters, ...parameters });
}

// Parameters that a reader adjusts in small steps: they add no step to the history, so that Back leaves the view.
const ADJUSTED = /^(from|to|span|sort|order|contains|named|q|mark|log|gpus|price|bound\..*)$/;

// Changes parameters of the view. A choice, such as another table, is a step of the history.
export function amend(parameters) {
  const next = changed(parameters);
  if (next === location.hash) return;
  const step = Object.keys(parameters).some((name) => !ADJUSTED.test(name) && (here().parameters[name] ?? null) !== (parameters[name] ?? null));
  if (step) history.pushState({ y: window.scrollY }, "", next);
  else history.replaceState(history.state, "", next);
  document.dispatchEvent(new Event("amended"));
}

// Changes parameters of the view and draws it again.
export function reshow(parameters) {
  amend(parameters);
  document.dispatchEvent(new Event("reshow"));
}

export const cellText = (stage, at) => (at ? `${stage}[${at}]` : stage);

export function splitCell(text) {
  const found = /^([^[]*)\[(.*)\]$/s.exec(text);
  return found ? [found[1], found[2]] : [text, ""];
}

export function cellLink(study, stage, at, more = {}) {
  return address(["study", study, "cell", stage], { cell: at, ...more });
}

// The address that opens the tree of a value beside the current view.
export function whyLink(asked) {
  return changed({ why: new URLSearchParams(asked).toString() });
}
