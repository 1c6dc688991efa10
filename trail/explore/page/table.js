// A table of values: units in the header, numbers on the right, each with its address.

import { h } from "./dom.js";
import { digits } from "./format.js";

// Shows a reply of the API. `link(column, i)` returns the address behind a number, `textLink(column, i)` that behind a text,
// and `rowLink(row, i)` that of the row's request or cell; each may return null.
export function tableView(reply, { link = () => null, textLink = () => null, sort = null, onsort = null, rowLink = () => null } = {}) {
  const broad = reply.columns.length > 9;
  const numeric = reply.columns.map((c) => c.values.some((v) => typeof v === "number"));
  const heading = reply.columns.map((column, i) => {
    const mark = sort?.column === column.name ? (sort.descending ? " ↓" : " ↑") : "";
    const name = onsort
      ? h("button", { type: "button", "data-control": `sort ${column.name}`, onclick: () => onsort(column.name) }, column.name + mark)
      : column.name + mark;
    const state = sort?.column === column.name ? (sort.descending ? "descending" : "ascending") : null;
    return h("th", { scope: "col", class: numeric[i] ? "number" : null, title: column.description, "aria-sort": state },
      name, column.unit && column.unit !== "1" ? h("small", {}, ` ${column.unit}`) : null);
  });
  const numbered = (row, target) => (target ? h("a", { href: target, title: "open the request or the cell of this row" }, String(row)) : String(row));
  const rows = reply.rows.map((row, i) => h("tr", {},
    h("td", { class: "number soft", "data-name": "row" }, numbered(row, rowLink?.(row, i))),
    reply.columns.map((column, c) => {
      const value = column.values[i];
      const text = value === null ? "–" : typeof value === "number" ? digits(value) : String(value);
      const address = typeof value === "number" ? link(column, i, row) : typeof value === "string" ? textLink(column, i) : null;
      const isLong = !numeric[c] && text.length > 60;
      const kind = [numeric[c] ? "number" : isLong && !broad ? "long" : null, value === null ? "none" : null].filter(Boolean).join(" ") || null;
      return h("td", { class: kind, "data-name": column.unit && column.unit !== "1" ? `${column.name} (${column.unit})` : column.name, title: typeof value === "number" ? String(value) : null },
        address ? h("a", { class: typeof value === "number" ? "number" : isLong && broad ? "clipped" : null, title: isLong && broad ? text : null, href: address }, text)
          // Among many columns, a long text has one line; with the focus, all of it.
          : isLong && broad ? h("span", { class: "clipped", tabindex: "0", title: text }, text) : text);
    })));
  return h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": `Table ${reply.table ?? ""}` },
    // On paper, a row of many columns becomes a paragraph.
    h("table", { class: broad ? "broad" : null }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "row"), heading)), h("tbody", {}, rows)));
}
