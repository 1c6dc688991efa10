// Colours of values. Sequential: a ramp whose lightness alone shows the order (after Cividis, which readers with colour
// blindness see alike). Categorical: the
// report's colours and two more. Each has a contrast of 3:1 with the page, light and dark.

const RAMP = [[0, 32, 77], [60, 77, 110], [124, 123, 120], [187, 173, 108], [255, 234, 70]];
const KINDS = ["#0072b2", "#d55e00", "#009e73", "#b0529b", "#8a6d00", "#3b8fc4", "#a0522d", "#767676"];
export const COLOURS = KINDS.length;

// Black or white, whichever is more readable on a colour (the threshold is WCAG's relative luminance at which both have
// the same contrast).
function readable(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

export function ramp(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(at), RAMP.length - 2);
  const mix = RAMP[low].map((v, i) => Math.round(v + (RAMP[low + 1][i] - v) * (at - low)));
  return { fill: `rgb(${mix.join(" ")})`, text: readable(mix) };
}

export function kind(index) {
  const fill = KINDS[index % KINDS.length];
  return { fill, text: readable([1, 3, 5].map((i) => parseInt(fill.slice(i, i + 2), 16))) };
}

// The colour of a request by its status.
export function statusColour(status) {
  return { ok: "track", timeout: "track-2", hung: "track-3", cancelled: "soft" }[status] ?? "bad";
}

// A scale over values: numbers by size, other labels by category.
export function scaleOf(values) {
  const known = values.filter((v) => v !== null && v !== undefined);
  if (known.length && known.every((v) => typeof v === "number")) {
    let low = Infinity;
    let high = -Infinity;
    for (const v of known) { low = Math.min(low, v); high = Math.max(high, v); }
    const span = high - low || 1;
    return { low, high, of: (v) => ramp((v - low) / span), kinds: null };
  }
  const kinds = [...new Set(known.map(String))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return { low: null, high: null, kinds, of: (v) => kind(kinds.indexOf(String(v))) };
}
