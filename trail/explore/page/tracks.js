// Tracks on one clock: requests as a waterfall, and lines of other activity. A span selected by dragging (or typed)
// applies to the whole page.

import { h, ink } from "./dom.js";
import { statusColour } from "./colour.js";
import { digits, nanoseconds, ticks } from "./format.js";

const LEFT = 132;
const RIGHT = 12;
const BOTTOM = 20;

// Draws tracks into a canvas; returns { element, draw }. A track is { name, unit, height, lines: [{ points, colour, dots,
// name, key }], paint }. A line with a `name` has it in place of the track's, one with a `key` below that of the track.
// `onpoint` gets the moment and the height that the pointer is at, and null when it leaves.
export function chart(tracks, whole, { onspan, label, onpoint = null }) {
  const heights = tracks.map((t) => t.height ?? 56);
  const height = heights.reduce((a, b) => a + b + 8, 0) + BOTTOM;
  const canvas = h("canvas", { height: String(height), role: "img", tabindex: "0", "aria-label": label });
  let span = whole;
  let drag = null;
  let pointed = null;
  let dragged = false;
  const scaleX = () => {
    const width = canvas.clientWidth - LEFT - RIGHT;
    return { x: (t) => LEFT + ((t - span[0]) / (span[1] - span[0])) * width, t: (x) => span[0] + ((x - LEFT) / width) * (span[1] - span[0]) };
  };
  const paint = () => {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "11px system-ui";
    const { x } = scaleX();
    let top = 0;
    tracks.forEach((track, i) => {
      drawTrack(context, track, { top, height: heights[i], width, x, span });
      top += heights[i] + 8;
    });
    context.fillStyle = ink("soft");
    for (const t of ticks(span[0], span[1], Math.max(2, Math.floor(width / 120)))) {
      const text = nanoseconds(t);
      context.fillText(text, Math.min(x(t), width - context.measureText(text).width), height - 6);
    }
    if (pointed !== null && !drag) context.fillRect(pointed, 0, 1, height - BOTTOM);
    if (drag) {
      context.fillStyle = ink("band");
      context.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), height - BOTTOM);
    }
  };
  let waiting = false;
  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; paint(); }); } };
  const at = (event) => event.clientX - canvas.getBoundingClientRect().left;
  canvas.addEventListener("pointerdown", (event) => { dragged = false; drag = { from: at(event), to: at(event) }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) drag.to = at(event);
    pointed = at(event) >= LEFT ? at(event) : null;
    if (onpoint) onpoint(pointed === null ? null : [scaleX().t(pointed), event.clientY - canvas.getBoundingClientRect().top]);
    soon();
  });
  canvas.addEventListener("pointerleave", () => { pointed = null; onpoint?.(null); soon(); });
  canvas.addEventListener("pointerup", () => {
    if (!drag) return;
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)].map((p) => scaleX().t(Math.max(p, LEFT)));
    const far = Math.abs(drag.to - drag.from) > 4;
    drag = null;
    dragged = far;
    if (far) onspan([Math.max(from, whole[0]), Math.min(to, whole[1])]);
    soon();
  });
  // The end of a drag does not count as a click.
  canvas.addEventListener("click", (event) => { if (dragged) event.stopImmediatePropagation(); dragged = false; });
  canvas.addEventListener("dblclick", () => onspan(null));
  canvas.addEventListener("keydown", (event) => {
    const part = (span[1] - span[0]) / 4;
    const move = { ArrowLeft: [-part, -part], ArrowRight: [part, part], "+": [part, -part], "-": [-part, part] }[event.key];
    if (event.key === "0") { onspan(null); event.preventDefault(); return; }
    if (!move) return;
    event.preventDefault();
    const next = [Math.max(whole[0], span[0] + move[0]), Math.min(whole[1], span[1] + move[1])];
    if (next[1] > next[0]) onspan(next[0] <= whole[0] && next[1] >= whole[1] ? null : next);
  });
  new ResizeObserver(soon).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);
  return { element: canvas, draw(next) { span = next ?? whole; soon(); }, time: (event) => scaleX().t(at(event)) };
}

function drawTrack(context, track, box) {
  const { top, height, width, x, span } = box;
  context.fillStyle = ink("raised");
  context.fillRect(LEFT, top, width - LEFT - RIGHT, height);
  context.fillStyle = ink("text");
  const named = (track.lines ?? []).filter((line) => line.name);
  if (named.length > 1) {
    let left = 0;
    for (const line of named) {
      context.fillStyle = ink(line.colour ?? "track");
      context.fillRect(left, top + 5, 8, 8);
      context.fillStyle = ink("text");
      context.fillText(line.name, left + 11, top + 12);
      left += 17 + context.measureText(line.name).width;
    }
  } else context.fillText(track.name, 0, top + 12, LEFT - 8);
  if (track.note) {
    context.fillStyle = ink("soft");
    context.fillText(track.note, 0, top + 27, LEFT - 8);
  }
  context.save();
  context.beginPath();
  context.rect(LEFT, top, width - LEFT - RIGHT, height);
  context.clip();
  if (track.paint) track.paint(context, box);
  let [low, high] = [track.from ?? 0, 0];
  let [least, most] = [Infinity, -Infinity];
  for (const line of track.lines ?? []) {
    for (const [t, v] of line.points) {
      low = Math.min(low, v);
      high = Math.max(high, v);
      if (t >= span[0] && t <= span[1]) { least = Math.min(least, v); most = Math.max(most, v); }
    }
    // A step that starts before the span is still in force at its beginning.
    const before = line.dots ? null : valueAt(line, span[0]);
    if (before !== null) { least = Math.min(least, before); most = Math.max(most, before); }
  }
  const y = (v) => top + height - 3 - ((v - low) / (high - low || 1)) * (height - 8);
  for (const line of track.lines ?? []) {
    context.strokeStyle = context.fillStyle = line.fill ?? ink(line.colour ?? "track");
    context.lineWidth = 1.4;
    if (line.dots) {
      // A few dots are drawn large enough to be seen individually.
      const size = line.points.length < 200 ? 5 : 2.2;
      for (const [t, v] of line.points) if (t >= span[0] && t <= span[1]) context.fillRect(x(t) - size / 2, y(v) - size / 2, size, size);
      continue;
    }
    context.beginPath();
    let last = null;
    for (const [t, v] of line.points) {
      if (last === null) context.moveTo(x(t), y(v));
      else { if (line.step) context.lineTo(x(t), y(last)); context.lineTo(x(t), y(v)); }
      last = v;
    }
    context.stroke();
  }
  context.restore();
  const keyed = (track.lines ?? []).filter((line) => line.key);
  if (keyed.length > 1) {
    let left = 0;
    for (const line of keyed) {
      context.fillStyle = line.fill;
      context.fillRect(left, top + 35, 7, 7);
      context.fillStyle = ink("text");
      context.fillText(line.key, left + 8, top + 42);
      left += 12 + context.measureText(line.key).width;
    }
  }
  if (least <= most) {
    // The range within the span shown.
    context.fillStyle = ink("soft");
    const unit = track.unit && track.unit !== "1" ? ` ${track.unit}` : "";
    const [from, to] = [digits(least, 3), digits(most, 3)];
    const range = from === to ? from : `${from} … ${to}`;
    context.fillText(`${range}${unit}`, 0, top + 27, LEFT - 8);
  }
}

// The value of a line at a moment: the last one known then, or null before the first.
export function valueAt({ points }, t) {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= t) low = middle + 1; else high = middle;
  }
  return low ? points[low - 1][1] : null;
}

// Whether a request belongs to the warm-up, which enters no figure.
export const isWarmup = (r) => r.phase === "warmup";

// The waterfall: a line for each request, from scheduled to done.
export function waterfall(requests) {
  const rows = requests;
  const height = Math.min(460, Math.max(60, rows.length * 12));
  return {
    name: "requests", height, rows,
    paint(context, { top, x, span, width, height: tall }) {
      const step = tall / rows.length;
      const thick = Math.max(Math.min(step - 1, 9), 0.6);
      // Warm-up requests stand on their own ground.
      context.fillStyle = ink("mark");
      rows.forEach((r, i) => { if (isWarmup(r)) context.fillRect(LEFT, top + i * step, width - LEFT - RIGHT, step); });
      rows.forEach((r, i) => {
        const start = r.scheduled ?? r.sent;
        if (start === null || (r.done ?? r.sent ?? start) < span[0] || start > span[1]) return;
        const y = top + i * step + (step - thick) / 2;
        const bar = (from, to, colour, alpha, part = 1) => {
          if (from === null || to === null || to < from) return;
          context.globalAlpha = alpha;
          context.fillStyle = ink(colour);
          context.fillRect(x(from), y + (thick * (1 - part)) / 2, Math.max(x(to) - x(from), 0.8), thick * part);
        };
        const colour = statusColour(r.status);
        bar(start, r.sent, "soft", 0.8, 0.35);
        // A request that failed at once has no length, but must be seen.
        if (r.status !== "ok" && r.sent !== null) { context.fillStyle = ink(colour); context.globalAlpha = 1; context.fillRect(x(r.done ?? r.sent) - 2, y, 5, thick); }
        bar(r.sent, r.first ?? r.done, colour, 0.4);
        bar(r.first, r.last ?? r.done, colour, 1);
        bar(r.headers, r.headers, "text", 1);
        bar(r.done, r.done, "text", 0.9);
      });
      context.globalAlpha = 1;
    },
  };
}

// The number of requests in flight, as steps.
export function inFlight(requests) {
  const edges = [];
  for (const r of requests) {
    if (r.sent === null || r.done === null) continue;
    edges.push([r.sent, 1], [r.done, -1]);
  }
  edges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let n = 0;
  return edges.map(([t, change]) => { n += change; return [t, n]; });
}

// Requests by the time they were sent (horizontal) and the time to their first token (vertical, logarithmic): darker
// means more.
export function cloudTrack({ ttft_cloud: cloud, span: whole }) {
  let [low, high, most] = [Infinity, -Infinity, 0];
  for (const [, bin, n] of cloud.counts) { low = Math.min(low, bin); high = Math.max(high, bin); most = Math.max(most, n); }
  const ms = (bin) => 10 ** (bin / cloud.bins_per_decade_of_ms);
  return low > high ? null : {
    name: "TTFT of requests", height: 110, note: `${digits(ms(low), 2)} … ${digits(ms(high + 1), 2)} ms, log`,
    paint(context, { top, height, x }) {
      const wide = (whole[1] - whole[0]) / cloud.columns;
      const tall = height / (high - low + 1);
      context.fillStyle = ink("track");
      for (const [column, bin, n] of cloud.counts) {
        context.globalAlpha = 0.15 + 0.85 * (Math.log(n + 1) / Math.log(most + 1));
        const left = x(whole[0] + column * wide);
        context.fillRect(left, top + (high - bin) * tall, Math.max(x(whole[0] + (column + 1) * wide) - left, 1), tall);
      }
      context.globalAlpha = 1;
    },
  };
}
