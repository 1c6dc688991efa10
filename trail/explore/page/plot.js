// A plot as SVG: panels with shared scales, and series distinguished by colour and shape. The drawing is also the
// export, so every colour is an attribute, and text has the colour of the page around it.

import { h, svg } from "./dom.js";
import { COLOURS, kind } from "./colour.js";
import { digits, ticks } from "./format.js";

const PAD = { left: 62, right: 22, top: 22, bottom: 46 };
let clips = 0;
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const dashOf = (series) => DASHES[Math.floor(series / COLOURS) % 4];

// The width of a text of a plot.
const ruler = h("canvas").getContext("2d");
const widthOf = (text) => { ruler.font = "11px system-ui, sans-serif"; return ruler.measureText(text).width; };

// A text that is wider than its room keeps its ends.
function fitting(room, text) {
  if (widthOf(text) <= room) return text;
  const letters = [...text];
  for (let most = letters.length - 1; most > 2; most -= 1) {
    const shown = `${letters.slice(0, Math.ceil(most * 0.6)).join("")}…${letters.slice(letters.length - Math.floor(most * 0.4)).join("")}`;
    if (widthOf(shown) <= room) return shown;
  }
  return `${letters[0]}…`;
}

// The ticks of a logarithmic axis: 1, 2 and 5 of each decade, or only the decades if there are many.
export function logTicks(low, high) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const steps = last - first > 3 ? [1] : high / low > 12 ? [1, 2, 5] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
  const list = [];
  for (let decade = first; decade <= last; decade += 1) for (const step of steps) { const v = step * 10 ** decade; if (v >= low * 0.999 && v <= high * 1.001) list.push(v); }
  return list.length > 1 ? list : ticks(low, high, 4);
}

function axisOf(values, log, from, to, count, { zero, steps, whole, span, names }) {
  let [low, high] = [Infinity, -Infinity];
  // Labels without numbers are placed at 1, 2, ….
  if (names) return { ...linear(0.5, names.length + 0.5, from, to), ticks: names.map((_, i) => i + 1), fits: () => true };
  // A selected span becomes the axis.
  if (span) return chosenAxis(span, log, from, to, count);
  for (const v of values) if (Number.isFinite(v) && (!log || v > 0)) { low = Math.min(low, v); high = Math.max(high, v); }
  if (low > high) [low, high] = [log ? 1 : 0, log ? 10 : 1];
  if (log) {
    low /= 1.1; high *= 1.1;
    const ratio = Math.log(high / low);
    return { ticks: steps && steps.length <= 12 ? steps.filter((t) => t >= low && t <= high) : logTicks(low, high), at: (v) => from + (Math.log(v / low) / ratio) * (to - from), value: (p) => low * Math.exp(((p - from) / (to - from)) * ratio), fits: (v) => v > 0 };
  }
  if (zero) low = Math.min(low, 0);
  if (low === high) high = low + (Math.abs(low) || 1);
  if (whole) { count = Math.min(count, Math.max(1, Math.ceil(high - low))); high = Math.max(high, low + count); }
  const list = ticks(low, high, count);
  const step = list.length > 1 ? list[1] - list[0] : high - low;
  low = Math.min(low, Math.floor(low / step + 1e-9) * step);
  high = Math.max(high, Math.ceil(high / step - 1e-9) * step);
  return { ...linear(low, high, from, to), ticks: ticks(low, high, count), fits: () => true };
}

const linear = (low, high, from, to) => ({ at: (v) => from + ((v - low) / (high - low)) * (to - from), value: (p) => low + ((p - from) / (to - from)) * (high - low) });

function chosenAxis([low, high], log, from, to, count) {
  if (!log) return { ...linear(low, high, from, to), ticks: ticks(low, high, count), fits: () => true };
  const ratio = Math.log(high / low);
  return { ticks: logTicks(low, high), at: (v) => from + (Math.log(v / low) / ratio) * (to - from), value: (p) => low * Math.exp(((p - from) / (to - from)) * ratio), fits: (v) => v > 0 };
}

// A mark, with a shape and a colour for its series.
function shape(series, x, y, size, attributes, title) {
  const colour = kind(series).fill;
  const style = { fill: attributes.hollow ? "none" : colour, stroke: attributes.rim ? "currentColor" : colour, "stroke-width": attributes.hollow ? 1.4 : attributes.rim ? 0.6 : 1, opacity: attributes.opacity ?? 1 };
  const s = size;
  const paths = [null, `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}z`, `M${x} ${y - 1.3 * s}L${x + 1.2 * s} ${y + s}H${x - 1.2 * s}z`, `M${x} ${y - 1.4 * s}L${x + 1.4 * s} ${y}L${x} ${y + 1.4 * s}L${x - 1.4 * s} ${y}z`];
  // After all colours, each has another shape.
  const path = paths[(series + Math.floor(series / COLOURS)) % 4];
  const body = title ? svg("title", {}, title) : null;
  return path ? svg("path", { d: path, ...style }, body) : svg("circle", { cx: x, cy: y, r: 1.1 * s, ...style }, body);
}

// Draws panels: [{ name, lines: [{ series, points: [[x, y]], step, dash, width, colour }], marks: [{ series, x, y, hollow, small, title, href, text }], rules: [{ x, text }] }].
export function plotOf(panels, { x, y, names = [], width = 900, height = 340, label, across: most = 3, quiet = false }) {
  // As many as fit, and no row with a single panel where two rows can share them.
  const columns = Math.max(1, Math.min(panels.length, Math.floor(width / 300), width > 1500 ? most + 1 : most));
  const down = Math.ceil(panels.length / columns);
  const across = Math.max(1, Math.ceil(panels.length / Math.max(1, down)));
  const tall = panels.length > 1 ? Math.max(180, Math.round(height * 0.72)) : height;
  const wide = width / across;
  const legend = names.length > 1 || names[0]?.text ? legendOf(names, width) : { height: 0, marks: [] };
  const within = x.span ? ([v]) => v >= x.span[0] && v <= x.span[1] : () => true;
  const all = [...panels.flatMap((p) => (p.lines ?? []).flatMap((l) => l.points)), ...panels.flatMap((p) => (p.marks ?? []).map((m) => [m.x, m.y]))].filter(within);
  const total = legend.height + down * tall;
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${total}`, width, height: total, role: panels.some((p) => (p.marks ?? []).some((m) => m.href && !m.small)) ? "group" : "img", "aria-label": label, color: "currentColor", "font-family": "system-ui, sans-serif", "font-size": 11 }, legend.marks);
  // The area where a reader can select a span, and the span that a position stands for.
  root.areas = [];
  panels.forEach((panel, i) => {
    const [column, row] = [i % across, Math.floor(i / across)];
    const left = column * wide + PAD.left;
    const right = (column + 1) * wide - PAD.right;
    const top = legend.height + row * tall + PAD.top;
    const bottom = legend.height + (row + 1) * tall - PAD.bottom;
    const ax = axisOf(all.map((p) => p[0]), x.log, left, right, Math.max(2, Math.floor(wide / 80)), x);
    const ay = axisOf(all.map((p) => p[1]), y.log, bottom, top, 5, { ...y, zero: y.zero ?? true });
    const part = svg("g", {});
    // The places of texts: the panel's name, and the labels of marks.
    const taken = panel.name ? [[(left + right) / 2 - 3.6 * panel.name.length, top - 7, 7.2 * panel.name.length]] : [];
    root.areas.push({ left, right, top, bottom, value: ax.value });
    clips += 1;
    const clip = x.span ? svg("g", { "clip-path": `url(#clip-${clips})` }, svg("clipPath", { id: `clip-${clips}` }, svg("rect", { x: left - 6, y: top - 8, width: right - left + 12, height: bottom - top + 16 }))) : part;
    const text = (px, py, anchor, words, more = {}) => svg("text", { x: px, y: py, "text-anchor": anchor, fill: "currentColor", ...more }, words);
    for (const t of ay.ticks) part.append(svg("line", { x1: left, x2: right, y1: ay.at(t), y2: ay.at(t), stroke: "currentColor", "stroke-opacity": 0.15 }), text(left - 6, ay.at(t) + 4, "end", digits(t, 3)));
    // A label that would overlap the one before is omitted; its tick stays.
    let free = -Infinity;
    for (const t of ax.ticks) {
      if (ax.at(t) > right + 1) continue;
      part.append(svg("line", { x1: ax.at(t), x2: ax.at(t), y1: bottom, y2: bottom + 4, stroke: "currentColor" }));
      const [words, whole] = x.names ? [fitting((right - left) / x.names.length - 6, x.names[t - 1]), x.names[t - 1]] : [digits(t, 3), null];
      const half = widthOf(words) / 2;
      if (ax.at(t) - half < free) continue;
      part.append(svg("text", { x: ax.at(t), y: bottom + 16, "text-anchor": "middle", fill: "currentColor" }, words, whole === words || !whole ? null : svg("title", {}, whole)));
      free = ax.at(t) + half + 4;
    }
    part.append(svg("line", { x1: left, x2: right, y1: bottom, y2: bottom, stroke: "currentColor" }));
    if (panel.name) part.append(text((left + right) / 2, top - 7, "middle", panel.name, { "font-weight": 600 }));
    if (row === down - 1 || i + across >= panels.length) part.append(text((left + right) / 2, bottom + 34, "middle", x.label));
    // Which way is better has no place beside a low panel.
    const upward = 5.8 * y.label.length < bottom - top + 20 ? y.label : y.label.split("; ")[0];
    if (column === 0) part.append(text(0, 0, "middle", upward, { transform: `translate(${column * wide + 13} ${(top + bottom) / 2}) rotate(-90)` }));
    for (const rule of panel.rules ?? []) if (ax.fits(rule.x)) part.append(svg("line", { x1: ax.at(rule.x), x2: ax.at(rule.x), y1: top, y2: bottom, stroke: "currentColor", "stroke-dasharray": "3 3" }), text(ax.at(rule.x) + 4, top + 10, "start", rule.text));
    for (const line of panel.lines ?? []) {
      const points = line.points.filter((p) => p[0] !== null && p[1] !== null && ax.fits(p[0]) && ay.fits(p[1]));
      let d = "";
      points.forEach((p, k) => { const [px, py] = [ax.at(p[0]).toFixed(1), ay.at(p[1]).toFixed(1)]; d += k === 0 ? `M${px} ${py}` : line.step ? `H${px}V${py}` : `L${px} ${py}`; });
      if (d) clip.append(svg("path", { d, fill: "none", stroke: line.plain ? "currentColor" : kind(line.series).fill, "stroke-width": line.width ?? 1.6, "stroke-dasharray": line.dash ?? dashOf(line.series), "stroke-linejoin": "round", opacity: line.opacity ?? 1 }));
    }
    // Small marks come last, so that a large one hides none of them.
    for (const mark of [...(panel.marks ?? [])].sort((a, b) => Boolean(a.small) - Boolean(b.small))) {
      if (!ax.fits(mark.x) || !ay.fits(mark.y) || !within([mark.x])) continue;
      const drawn = shape(mark.series, ax.at(mark.x), ay.at(mark.y), mark.small ? 2 : 3.6, { hollow: mark.hollow, opacity: mark.opacity, rim: mark.small }, quiet ? null : mark.title);
      // Small marks are numerous: the pointer opens them, and the keyboard has the table below the plot.
      if (mark.href && mark.small) {
        drawn.setAttribute("cursor", "pointer");
        drawn.addEventListener("click", () => { location.hash = mark.href; });
      }
      if (mark.text) {
        // Beside its mark, where it fits; a label that would meet another is omitted, and the title has it.
        const wide = 6.6 * mark.text.length;
        const [px, py] = [ax.at(mark.x) + (ax.at(mark.x) + 8 + wide > right + 14 ? -8 - wide : 8), ay.at(mark.y) - 6];
        if (!taken.some(([x, y, w]) => px < x + w + 3 && x < px + wide + 3 && Math.abs(py - y) < 12)) {
          taken.push([px, py, wide]);
          part.append(text(px, py, "start", mark.text));
        }
      }
      part.append(mark.href && !mark.small ? svg("a", { href: mark.href, "aria-label": mark.title }, drawn) : drawn);
    }
    if (clip !== part) part.append(clip);
    root.append(part);
  });
  return root;
}

function legendOf(names, width) {
  const marks = [];
  let [x, y] = [PAD.left, 12];
  for (const { series, text, hollow } of names) {
    // The title of a shortened name has all of it. A dashed line shows its dashes.
    const dash = dashOf(series);
    const room = dash ? 32 : 14;
    const shown = fitting(width - PAD.left - room - 16, text);
    const wide = room + 16 + widthOf(shown);
    if (x + wide > width && x > PAD.left) [x, y] = [PAD.left, y + 17];
    if (dash) marks.push(svg("path", { d: `M${x} ${y}h28`, stroke: kind(series).fill, "stroke-width": 1.6, "stroke-dasharray": dash }));
    marks.push(shape(series, x + (dash ? 14 : 5), y, 3.6, { hollow }), svg("text", { x: x + room, y: y + 4, fill: "currentColor" }, shown, shown === text ? null : svg("title", {}, text)));
    x += wide;
  }
  return { marks, height: y + 10 };
}

// Lets a reader drag over a panel to select a span of the horizontal axis; a click on a mark stays a click.
export function brushed(picture, onspan) {
  let drag = null;
  const place = (event) => {
    const box = picture.getBoundingClientRect();
    const scale = picture.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };
  picture.addEventListener("pointerdown", (event) => {
    const [px, py] = place(event);
    const area = picture.areas.find((a) => px >= a.left - 6 && px <= a.right + 6 && py >= a.top && py <= a.bottom);
    if (area && event.button === 0) drag = { area, from: px, band: null, pointer: event.pointerId };
  });
  picture.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [px] = place(event);
    if (!drag.band && Math.abs(px - drag.from) < 5) return;
    if (!drag.band) {
      const { top, bottom } = drag.area;
      drag.band = svg("rect", { y: top, height: bottom - top, class: "brush" });
      picture.append(drag.band);
      picture.setPointerCapture(drag.pointer);
    }
    drag.to = Math.min(drag.area.right, Math.max(drag.area.left, px));
    drag.band.setAttribute("x", Math.min(drag.from, drag.to));
    drag.band.setAttribute("width", Math.abs(drag.to - drag.from));
  });
  const end = () => {
    const done = drag;
    drag = null;
    if (!done?.band) return;
    done.band.remove();
    onspan([Math.min(done.from, done.to), Math.max(done.from, done.to)].map((p) => done.area.value(p)));
  };
  picture.addEventListener("pointerup", end);
  picture.addEventListener("pointercancel", () => { drag?.band?.remove(); drag = null; });
  picture.addEventListener("dragstart", (event) => event.preventDefault());
}

// The plot for a file: with its background, and without links into the page.
export function svgText(picture, title) {
  const copy = picture.cloneNode(true);
  copy.setAttribute("color", "#1b1f24");
  copy.removeAttribute("class");
  for (const link of copy.querySelectorAll("a")) link.replaceWith(...link.childNodes);
  const box = copy.getAttribute("viewBox").split(" ");
  copy.prepend(svg("title", {}, title), svg("rect", { width: box[2], height: box[3], fill: "#fff" }));
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

// A text as a file.
export function download(text, name, type) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Rows as CSV: a header with units, null as an empty field.
export function csvText(columns, rows) {
  const field = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(String(value)) || value === "" ? `"${String(value).replaceAll("\"", "\"\"")}"` : String(value));
  return `${[columns, ...rows].map((row) => row.map(field).join(",")).join("\n")}\n`;
}
