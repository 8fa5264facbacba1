"use strict";
// Errors are counted where a test can see them.
window.addEventListener("error", () => { document.documentElement.dataset.failed = "1"; });

const data = JSON.parse(document.getElementById("data").textContent);
const { summary } = data;
const $ = (id) => document.getElementById(id);

// ---- Text -----------------------------------------------------------------------------------------------------------------

const digits = (v) => v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0);
function scaled(value, step, units) {
  let at = 0;
  while (Math.abs(value) >= step && at + 1 < units.length) { value /= step; at += 1; }
  return [value, units[at]];
}
function bytes(n) {
  const [v, unit] = scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
  return unit === "B" ? `${n} B` : `${digits(v)} ${unit}`;
}
function count(n) {
  const [v, unit] = scaled(n, 1000, ["", "k", "M", "B", "T"]);
  if (unit === "" && Number.isInteger(n)) return `${n}`;
  return unit === "B" || unit === "T" ? `${v.toFixed(2)}${unit}` : `${digits(v)}${unit}`;
}
function seconds(s) {
  return s >= 1 ? `${digits(s)} s` : s >= 1e-3 ? `${digits(s * 1e3)} ms` : `${digits(s * 1e6)} µs`;
}
const percent = (p) => `${(p * 100).toFixed(1)}%`;

/** An element with children; text is never read as markup. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const key = (color) => el("i", { class: "key", style: `background:${color}` });

// ---- Figures --------------------------------------------------------------------------------------------------------------

const paint = (word) => `--c${Math.max(0, data.categories.indexOf(word))}`;
const colorOf = (word) => `var(${paint(word)})`;

function figures() {
  const { cluster: c, parameters: p, memory: m, time: t, batch: b } = summary;
  $("title").textContent = summary.profile ? `${summary.recipe} (${summary.profile})` : summary.recipe;
  const nodes = c.nodes > 1 ? `${c.nodes} nodes × ${c.devices_per_node} ${c.device} = ${c.devices} devices` : `${c.devices} ${c.device}`;
  $("machine").textContent =
    `${nodes} (${c.name}) · ${count(p.total)} parameters, ${count(p.active)} active · ${b.sequences} sequences × ${b.sequence} = ${count(b.tokens)} tokens a step`;
  const left = Math.abs(m.headroom);
  $("fit").textContent = m.fits ? `fits, ${bytes(left)} (${percent(left / m.device)}) left` : `does not fit by ${bytes(left)}`;
  $("fit").className = m.fits ? "good" : "warn";
  const tiles = [
    ["peak", m.peak, bytes(m.peak), `peak of ${bytes(m.device)} a device`],
    ["step", t.step, seconds(t.step), "a step"],
    ["tokens", t.tokens_per_second_device, count(t.tokens_per_second_device), "tokens/s a device"],
    ["mfu", t.mfu, percent(t.mfu), "of the bf16 peak (MFU)"],
    ["exposed", t.exposed, seconds(t.exposed), `exposed of ${seconds(t.communication)} collectives`],
    ["held", p.held_by_a_rank, count(p.held_by_a_rank), "parameters held by a rank"],
  ];
  if (t.bubble) tiles.splice(5, 0, ["bubble", t.bubble, seconds(t.bubble), "waiting for other stages"]);
  if (summary.basis === "estimate") $("basis").textContent = `Estimated: ${summary.estimated}; ${summary.accuracy}`;
  for (const [name, value, text, what] of tiles)
    $("tiles").append(el("div", { class: "tile" }, el("b", { id: `tile-${name}`, "data-value": value }, text), el("span", {}, what)));
}

/** Rows of a number, a name and a bar. */
function bars(table, rows, write) {
  const most = Math.max(...rows.map((row) => row[1]), 1e-30);
  for (const [name, value, color, note] of rows) {
    const bar = el("div", { style: `width:${(value / most) * 100}%;background:${color}` });
    table.append(el("tr", {}, el("td", { class: "n", "data-name": name, "data-value": value }, write(value)), el("td", {}, note || name), el("td", { class: "bar" }, bar)));
  }
}

function tables() {
  const { memory: m, time: t } = summary;
  const held = Object.entries(m.at_peak).map(([word, n]) => [word, n, colorOf(word)]);
  held.sort((a, b) => b[1] - a[1]);
  bars($("categories"), held.filter((row) => row[1] > 0), bytes);
  $("peak-at").textContent = m.peak_at;
  for (const id of ["largest", "sent"]) $(id).hidden = summary.basis === "estimate";
  for (const term of (m.largest_at_peak || []).slice(0, 8)) {
    const times = term.buffers > 1 ? ` ×${term.buffers}` : "";
    $("terms").append(el("tr", {}, el("td", { class: "n" }, bytes(term.bytes)), el("td", {}, key(colorOf(term.category)), `${term.name}${times}`), el("td", { class: "quiet" }, term.category)));
  }
  $("bound-by").textContent = `bound by ${t.bound}`;
  bars($("spent"), data.bounds.map((word, i) => [word, t.spent[word], `var(--b${i})`, `${word}, ${percent(t.spent[word] / t.step || 0)}`]), seconds);
  if (!summary.traffic) return;
  const sent = summary.traffic.map((row) => [`${row.collective} ${row.axis}`, row.bytes, "var(--accent)", `${row.collective} over ${row.ranks} ${row.axis}`]);
  if (sent.length) bars($("traffic"), sent, bytes);
  else $("traffic").append(el("tr", {}, el("td", {}, "nothing: one rank holds everything")));
}

/** What expert parallelism and meta initialisation save, each beside doing without; at the end what is left of a device. */
function saved() {
  const { memory: m, saved_by: rows } = summary;
  $("saved").hidden = !rows;
  for (const { by, from, to, of } of rows || [])
    $("saved-rows").append(el("tr", {}, el("td", {}, by), el("td", { class: "n", "data-saved": `${by} ${of}`, "data-value": from }, bytes(from)),
      el("td", { class: "n", "data-saved-to": `${by} ${of}`, "data-value": to }, bytes(to)), el("td", { class: "n" }, percent(to / from - 1)), el("td", {}, of)));
  $("headroom").textContent = m.headroom < 0 ? "" : `headroom left: ${bytes(m.headroom)} of ${bytes(m.device)}, ${percent(m.headroom / m.device)}`;
}

figures();
tables();
saved();
