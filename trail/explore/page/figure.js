// A plot as the YAML of a report figure, and of the tables that it needs and the study may lack.

const quote = (text) => JSON.stringify(String(text));
const label = (value) => (typeof value === "number" ? String(value) : /^-?\d+(\.\d+)?$/.test(String(value)) ? String(value) : quote(value));

// A column name, quoted for SQL.
const column = (name) => `"${name.replaceAll("\"", "\"\"")}"`;

// A title that the number check accepts: a number in it would need a trail, and a quantile is written in words.
const untold = (text) => text.replace(/\be2e\b/gi, "end-to-end").replace(/ ?\bp50\b/g, " (median)").replace(/ ?\bp\d+\b/g, " (high quantile)").replace(/\d+/g, "").replace(/\s+/g, " ").trim().replace(/^./, (c) => c.toUpperCase());

export function figureText(f) {
  const lines = [];
  let { table, x, y } = f;
  const { name } = f;
  const analyze = (text) => lines.push("# Among the tables of an analyze stage; here it is called `results`.", ...text, "");
  if (f.requests) {
    analyze(["latencies:", "  operator: requests", `  load: ${f.requests}`]);
    table = "results.latencies";
  }
  if (f.bounds) {
    analyze(["objectives:", "  operator: goodput", `  load: ${f.load}`, "  objectives:", "    - name: chosen", "      all:", ...f.bounds.map(([metric, step]) => `        - {metric: ${metric}, at-most: ${step}}`)]);
    table = "results.objectives";
    if (f.repeats.length) {
      lines.splice(-1, 0, "objective_means:", "  operator: aggregate", "  from: objectives", `  over: [${f.repeats.map(quote).join(", ")}]`, `  columns: [${y}]`);
      table = "results.objective_means";
      y = `${y}_mean`;
    }
  }
  if (f.derived) {
    const { gpus, price, speed, axes, from } = f.derived;
    const cost = price !== null;
    const value = cost ? `${price} * ${gpus} * 1e6 / (output_throughput * 3600)` : `output_throughput / ${gpus}.0`;
    const own = cost ? "usd_per_mtok" : "output_throughput_per_gpu";
    lines.push(`# Among the tables of the analyze stage \`${f.derived.analyze}\`.`, "per_gpu:", "  operator: sql", `  keys: [${axes.map(quote).join(", ")}]`, `  query: ${quote(`select ${axes.map(column).join(", ")}, ${column(speed)}, ${value} as ${own} from ${column(from)} where output_throughput > 0`)}`,
      `  units: {${own}: ${quote(cost ? "USD/Mtok" : "tok/s")}}`, `  descriptions: {${own}: ${quote(cost ? `${price} $ per GPU and hour × ${gpus} GPUs ÷ output tokens` : `output throughput ÷ ${gpus} GPUs`)}}`, "");
    table = `${f.derived.analyze}.per_gpu`;
    [x, y] = [speed, own];
    f.frontier = ["higher", cost ? "lower" : "higher"];
  }
  const kind = f.kind === "goodput" ? "ladder" : f.kind;
  lines.push("# Among the figures of a report stage; `{{ figure(\"NAME\") }}` shows it, as the template `report.md` does automatically.", `${name}:`, `  kind: ${kind}`, `  table: ${table}`, `  x: ${x}`);
  if (y) lines.push(`  y: ${y}`);
  if (f.series) lines.push(`  series: ${f.series}`);
  if (f.facet) lines.push(`  facet: ${f.facet}`);
  if (f.frontier) lines.push(`  frontier: [${f.frontier.join(", ")}]`);
  if (f.logX && kind !== "ladder") lines.push("  log-x: true");
  if (f.logY) lines.push("  log-y: true");
  if (f.kept?.length) lines.push(`  where: {${f.kept.map((k) => `${quote(k.axis)}: ${label(k.label)}`).join(", ")}}`);
  lines.push(`  title: ${quote(untold(f.title))}`, `  caption: ${quote(f.caption)}`);
  return `${lines.join("\n")}\n`;
}
