// A table that continues beyond its edge shows it: the edge fades, and on a phone a line above it names the direction.

import { h } from "./dom.js";

export function watchScrolling(main) {
  let waiting = false;
  const look = () => {
    waiting = false;
    for (const box of main.querySelectorAll(".scroll")) mark(box);
  };
  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(look); } };
  new MutationObserver(soon).observe(main, { childList: true, subtree: true });
  new ResizeObserver(soon).observe(main);
  main.addEventListener("scroll", (event) => { if (event.target.classList?.contains("scroll")) mark(event.target); }, true);
  main.addEventListener("toggle", soon, true);
}

function mark(box) {
  const beyond = box.scrollWidth - box.clientWidth;
  const has = { back: box.scrollLeft > 2, onward: beyond - box.scrollLeft > 2 };
  for (const [name, on] of Object.entries(has)) if (box.classList.contains(name) !== on) box.classList.toggle(name, on);
  const sign = box.previousElementSibling?.classList.contains("sign") ? box.previousElementSibling : null;
  // For a screen reader, the table is complete.
  if (beyond > 2 && !sign) box.before(h("p", { class: "sign", "aria-hidden": "true" }, "The table continues to the right: swipe it. →"));
  if (beyond <= 2 && sign) sign.remove();
}
