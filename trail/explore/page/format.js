// Values for people. The full value is always in a title.

// A grid has thousands of numbers, and a new format for each would take longer than the rest of the page.
const formats = [];
const decimal = (value, places) => (formats[places] ??= new Intl.NumberFormat("en-US", { maximumFractionDigits: places })).format(value);

export function digits(value, significant = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return decimal(value, 0);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(significant - 1);
  const places = Math.max(0, significant - 1 - Math.floor(Math.log10(size)));
  return decimal(value, places);
}

// A unit that is shown: a count and a share have none.
export const unitOrNull = (unit) => (unit && unit !== "1" ? unit : null);

export function withUnit(value, unit) {
  return unitOrNull(unit) && value !== null && value !== undefined ? `${digits(value)} ${unit}` : digits(value);
}

export function nanoseconds(ns) {
  if (ns === null || ns === undefined) return "–";
  const size = Math.abs(ns);
  if (size >= 1e9) return `${digits(ns / 1e9)} s`;
  if (size >= 1e6) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e3)} µs`;
}

export function seconds(s) {
  if (s === null || s === undefined) return "–";
  if (s < 1) return `${digits(s * 1000, 3)} ms`;
  // Rounded before it is split, so that 479.7 s are 8 min and not 7 min 60 s.
  const [whole, minutes] = [Math.round(s), Math.round(s / 60)];
  if (whole < 120) return `${digits(s, 3)} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytesText(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) { count /= 1024; unit += 1; }
  return `${unit ? count.toFixed(1) : count} ${units[unit]}`;
}

export function short(digest) {
  return digest ? digest.slice(0, 15) : "–";
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
}

// Labels in their natural order: numbers as numbers.
export function byLabel(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (a === null || b === null) return (a === null) - (b === null);
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// The values of axis ticks: 1, 2 or 5 times a power of ten.
export function ticks(from, to, count = 6) {
  const span = to - from;
  if (!(span > 0)) return [from];
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const list = [];
  for (let value = Math.ceil(from / step) * step; value <= to + step * 1e-6; value += step) list.push(value);
  return list;
}

// A quantile of sorted values: type 7, as in the tables of results, between the two nearest ranks.
export function quantileOf(sorted, q) {
  if (!sorted.length) return null;
  const at = (sorted.length - 1) * q;
  const low = Math.floor(at);
  const [a, b, weight] = [sorted[low], sorted[Math.min(low + 1, sorted.length - 1)], at - low];
  return weight < 0.5 ? a + (b - a) * weight : b - (b - a) * (1 - weight);
}

// A moment to the second. The full value belongs in a title.
export function moment(iso) {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(iso ?? "");
  return found ? `${found[1]} ${found[2]} UTC` : iso ?? "–";
}

// The name of a column in words, without what its unit already shows.
export function columnWords(name) {
  return name.replace(/_(ms|s|w|j)(?=_|$)/g, "").replaceAll("_", " ").replace(/^(ttft|tpot|itl|kv|cpu|gpu)\b/, (word) => word.toUpperCase());
}

// Whether more or less of a column is better, or null.
export function betterOf(name) {
  if (/throughput|_rate(_|$)|goodput/.test(name)) return "more";
  return /(^|_)(ttft|tpot|itl|e2e|latency)(_|$)/.test(name) ? "less" : null;
}

// The time since a moment.
export function ago(moment) {
  const s = (Date.now() - Date.parse(moment)) / 1000;
  if (!Number.isFinite(s)) return "–";
  if (s < 90) return "just now";
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  if (s < 129600) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86400)} days ago`;
}

// Whether a table of the overview shows measurements of a load stage.
export const readsStage = (entry, stage) => entry.reads?.includes(stage) ?? false;

// What a table shows that reads other load stages than the shown one.
export function valuesOf(entry, { name, class: kind }) {
  const others = kind === "measurement" && entry?.reads?.length && !readsStage(entry, name);
  return others ? `These are values of ${entry.reads.length === 1 ? "stage" : "stages"} ${entry.reads.join(", ")}, and not of ${name}.` : null;
}
