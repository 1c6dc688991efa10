// The report with every traced number as a link into its tree.

import { changed, h, here, replace, whyLink } from "./dom.js";
import { get, objectText } from "./api.js";
import { plural } from "./format.js";

export async function reportView(main, study) {
  const { parameters } = here();
  if ((await get(["studies", study])).report === false) {
    replace(main, h("h1", {}, "Report"), h("p", {}, "This study has no report. An experiment with a stage of kind ", h("code", {}, "report"), " has one once it has run."));
    return;
  }
  const report = await get(["studies", study, "report"], parameters.report ? { cell: parameters.report } : {});
  const byLine = new Map();
  for (const number of report.numbers) {
    if (!byLine.has(number[0])) byLine.set(number[0], []);
    byLine.get(number[0]).push(number);
  }
  const outcome = (s) => h("span", { class: { holds: "ok", licensed: "ok", refused: "bad", undecided: "warn" }[s.outcome] ?? null }, s.outcome);
  const claims = report.statements.filter((s) => s.claim);
  const lines = report.markdown.split("\n").map((text, i) => ({ line: i + 1, parts: partsOf(text, byLine.get(i + 1) ?? []) }));
  const article = h("article", { class: "report" }, blocks(lines, report.outputs));
  pairFirst(article);
  replace(main, (report.doubts ?? []).map((doubt) => h("p", { class: "note" }, doubt)),
    h("p", { class: "soft screen" }, `${plural(report.numbers.length, "traced number")}; click one to see where it comes from.`),
    claims.length ? h("details", { class: "screen" }, h("summary", {}, plural(claims.length, "claim")), h("ul", {}, claims.map((c) => h("li", {}, outcome(c), ` ${c.claim}: ${c.reason}`)))) : null,
    withContents(article));
  const wanted = parameters.line && main.querySelector(`#${CSS.escape(`L${parameters.line}`)}`);
  if (wanted) { wanted.classList.add("here"); wanted.scrollIntoView({ block: "center" }); }
}

// On wide screens the first picture is beside the answers before it: the text and lists of its section. Only the
// question may have a section before that.
function pairFirst(article) {
  const picture = article.querySelector("figure");
  const answers = [];
  let before = picture?.previousElementSibling;
  for (; before && before.tagName !== "H2"; before = before.previousElementSibling) {
    if (!["P", "UL"].includes(before.tagName)) return;
    answers.unshift(before);
  }
  const sections = [...article.querySelectorAll("h2")].filter((e) => e.textContent !== "Contents");
  if (!before || !answers.length || sections.indexOf(before) > 1) return;
  const caption = picture.nextElementSibling;
  const shown = h("div", {});
  before.after(h("div", { class: "first" }, h("div", {}, answers), shown));
  shown.append(picture);
  if (caption?.tagName === "P" && caption.textContent.startsWith("Figure")) shown.append(caption);
}

// The sections of the report, listed beside it on wide screens. Links in the report's own table of contents lead to the
// same headings.
function withContents(article) {
  const headings = [...article.querySelectorAll("h2")].filter((e) => e.textContent !== "Contents");
  const link = (heading, words) => h("a", { href: changed({ line: heading.id.slice(1), why: null }) }, words);
  for (const item of article.querySelectorAll("li")) {
    const heading = headings.find((e) => e.textContent === item.textContent);
    if (heading && !item.querySelector("a")) replace(item, link(heading, item.textContent));
  }
  if (headings.length < 3) return article;
  const own = [...article.querySelectorAll("h2")].find((e) => e.textContent === "Contents");
  for (const part of own?.nextElementSibling?.tagName === "UL" ? [own, own.nextElementSibling] : []) part.classList.add("own");
  const list = h("nav", { class: "contents", "aria-label": "Sections of the report" }, h("ul", {}, headings.map((e) => h("li", {}, link(e, e.textContent)))));
  return h("div", { class: "beside" }, list, article);
}

// A line in pieces: text, and numbers with their place. Columns count characters, not code units.
function partsOf(text, numbers) {
  const letters = [...text];
  const parts = [];
  let at = 0;
  for (const [line, start, end, , source] of [...numbers].sort((a, b) => a[1] - b[1])) {
    if (start - 1 < at) continue;
    parts.push(letters.slice(at, start - 1).join(""), { line, column: start, source, text: letters.slice(start - 1, end - 1).join("") });
    at = end - 1;
  }
  parts.push(letters.slice(at).join(""));
  return parts.filter((part) => part !== "");
}

const plain = (parts) => parts.map((p) => (typeof p === "string" ? p : p.text)).join("");

function trimmed(parts) {
  const copy = [...parts];
  if (typeof copy[0] === "string") copy[0] = copy[0].trimStart();
  const last = copy.length - 1;
  if (typeof copy[last] === "string") copy[last] = copy[last].trimEnd();
  return copy.filter((p) => p !== "");
}

function cut(parts, length) {
  const [first, ...rest] = parts;
  return typeof first === "string" ? [first.slice(length), ...rest] : parts;
}

// The subset of Markdown that reports use: headings, lists, tables, fenced and indented text, figures, paragraphs.
function blocks(lines, outputs) {
  const found = [];
  for (let i = 0; i < lines.length; i += 1) {
    const { parts, line } = lines[i];
    const text = plain(parts);
    const heading = /^(#{1,5}) /.exec(text);
    const picture = /^!\[([^\]]*)\]\(([^)]*)\)/.exec(text);
    const until = (test) => { const start = i; while (i + 1 < lines.length && test(plain(lines[i + 1].parts))) i += 1; return lines.slice(start, i + 1); };
    if (text.trim() === "" || /^<!--.*-->$/.test(text)) continue;
    if (heading) found.push(h(`h${heading[1].length}`, { id: `L${line}` }, inline(cut(parts, heading[0].length))));
    else if (picture) found.push(figure(picture, outputs));
    else if (text.startsWith("|")) found.push(tableOf(until((t) => t.startsWith("|"))));
    else if (text.startsWith("```")) { const fenced = until((t) => !t.startsWith("```")); i += 1; found.push(h("pre", { id: `L${line}` }, fenced.slice(1).map((l) => [links(l.parts), "\n"]))); }
    else if (/^ {4}/.test(text)) found.push(h("pre", { id: `L${line}` }, until((t) => /^ {4}/.test(t)).map((l) => [links(cut(l.parts, 4)), "\n"])));
    else if (/^\s*[-*] /.test(text)) found.push(h("ul", {}, items(until((t) => t.trim() !== "" && !t.startsWith("#") && !t.startsWith("|")))));
    else found.push(h("p", { id: `L${line}` }, until((t) => t.trim() !== "" && !/^([#|]|```|\s*[-*] |!\[)/.test(t)).map((l) => [h("span", { id: l.line === line ? null : `L${l.line}` }, inline(l.parts)), " "])));
  }
  return found;
}

function items(lines) {
  const list = [];
  for (const { parts, line } of lines) {
    const mark = /^\s*[-*] /.exec(plain(parts));
    if (mark) list.push(h("li", { id: `L${line}` }, inline(cut(parts, mark[0].length))));
    else list.at(-1)?.append(" ", ...[inline(trimmed(parts))].flat(Infinity));
  }
  return list;
}

function tableOf(lines) {
  const rows = lines.filter((l) => !/^\|[\s:|-]+\|$/.test(plain(l.parts))).map((l) => ({ line: l.line, cells: cellsOf(l.parts) }));
  const [head, ...body] = rows;
  const number = (cell) => /^[−+-]?[\d.,]+( ?%|×)?$/.test(plain(cell).trim());
  const cell = (tag) => (c) => h(tag, { scope: tag === "th" ? "col" : null, class: tag === "td" && number(c) ? "number" : plain(c).length > 60 ? "long" : null }, inline(trimmed(c)));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table at line ${head.line} of the report` }, h("table", {}, h("thead", {}, h("tr", { id: `L${head.line}` }, head.cells.map(cell("th")))),
    h("tbody", {}, body.map((row) => h("tr", { id: `L${row.line}` }, row.cells.map(cell("td")))))));
}

function cellsOf(parts) {
  const cells = [[]];
  for (const part of parts) {
    if (typeof part !== "string") { cells.at(-1).push({ ...part, text: part.text.replaceAll("\\|", "|") }); continue; }
    part.split(/(?<!\\)\|/).forEach((piece, i) => { if (i) cells.push([]); cells.at(-1).push(piece.replaceAll("\\|", "|")); });
  }
  return cells.slice(1, -1);
}

function figure([, caption, path], outputs) {
  const digest = outputs[path] ?? outputs[`figures/${path}`];
  const image = h("img", { alt: caption });
  if (digest) {
    // As an image, a drawing runs nothing and loads nothing.
    objectText(digest).then((text) => { image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })); }).catch((e) => { image.alt = `${caption} (${e.message})`; });
  }
  // The caption with its number follows as a paragraph of the report.
  return h("figure", {}, image);
}

const links = (parts) => parts.map((part) => (typeof part === "string" ? part : numberLink(part)));

function numberLink(part) {
  // A result is a link; labels, names and the report's own numbering are text.
  const result = ["table", "count", "missing", "json", "statement", "ledger"].includes(part.source) && /^[\s[(<>≤≥≈~+−-]*[.\d]/.test(part.text);
  if (!result) return part.text;
  return h("a", { class: "value", href: whyLink({ line: part.line, column: part.column }) }, part.text);
}

// Text with `code` and **strong words**; a link becomes its text. Marks may begin in one piece and end in another.
function inline(parts) {
  const found = [];
  const open = [{ mark: null, children: found }];
  const put = (child) => open.at(-1).children.push(child);
  for (const part of parts) {
    if (typeof part !== "string") { put(numberLink(part)); continue; }
    for (const piece of part.split(/(`|\*\*|\*|\[[^\]]*\]\([^)]*\))/)) {
      if (piece === "`" || piece === "**" || piece === "*") {
        if (open.at(-1).mark === piece) {
          const { children } = open.pop();
          put(h({ "`": "code", "**": "strong", "*": "em" }[piece], {}, children));
        } else if (open.at(-1).mark !== "`") open.push({ mark: piece, children: [] });
        else put(piece);
      } else if (/^\[[^\]]*\]\(/.test(piece)) put(piece.slice(1, piece.indexOf("](")));
      else if (piece) put(piece);
    }
  }
  while (open.length > 1) { const { mark, children } = open.pop(); open.at(-1).children.push(mark, ...children); }
  return found;
}
