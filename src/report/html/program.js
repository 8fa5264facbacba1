// What a compiled program adds to the page: a step over time, who holds what, and the tensors.

const { program, memory } = data;

// ---- A step ---------------------------------------------------------------------------------------------------------------

const size = program.op.length;
const start = new Float64Array(size), end = new Float64Array(size);
const before = [0, 0];
for (let i = 0; i < size; i++) {
  const stream = program.stream[i];
  start[i] = (before[stream] + program.gap[i]) * program.unit;
  before[stream] += program.gap[i] + program.length[i];
  end[i] = before[stream] * program.unit;
}
const length = Math.max(before[0], before[1]) * program.unit || 1;
const levels = memory.categories.map(({ always, changes }) => {
  let now = always;
  return Float64Array.from(changes, (change) => (now += change) * memory.unit);
});
const totals = Float64Array.from({ length: size }, (_, i) => levels.reduce((sum, level) => sum + level[i], 0));
// The instructions of each stream, and of both by their start, to find those at a place by bisection.
const streams = [0, 1].map((s) => program.stream.flatMap((stream, i) => (stream === s && end[i] > start[i] ? [i] : [])));
const byStart = Array.from({ length: size }, (_, i) => i).sort((a, b) => start[a] - start[b] || a - b);

function last(list, time) {
  let [low, high] = [0, list.length];
  while (low < high) { const middle = (low + high) >> 1; if (start[list[middle]] <= time) low = middle + 1; else high = middle; }
  return low - 1;
}

const LEFT = 64, TOP = 10, MEMORY = 270, LANE = 44, GAP = 22;
let view = [0, length], drag = null;

function colors() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(name).trim();
}

function nice(span, parts) {
  const raw = span / parts, power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
}

function draw() {
  const canvas = $("canvas"), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const ctx = canvas.getContext("2d"), color = colors();
  ctx.scale(ratio, ratio);
  ctx.font = "11px system-ui, sans-serif";
  const inner = width - LEFT - 8;
  const x = (time) => LEFT + ((time - view[0]) / (view[1] - view[0])) * inner;
  const device = summary.memory.device, most = Math.max(summary.memory.peak, device) * 1.04;
  const y = (n) => TOP + MEMORY * (1 - n / most);

  ctx.fillStyle = color("--quiet"); ctx.strokeStyle = color("--line");
  ctx.textAlign = "right"; ctx.textBaseline = "middle";
  const unit = 2 ** (10 * Math.min(4, Math.floor(Math.log2(most) / 10))), step = nice(most / unit, 5) * unit;
  for (let n = 0; n < most; n += step) {
    ctx.beginPath(); ctx.moveTo(LEFT, y(n)); ctx.lineTo(LEFT + inner, y(n)); ctx.stroke();
    ctx.fillText(n ? bytes(n) : "0", LEFT - 8, y(n));
  }

  // Memory: for each column of pixels the instruction with the most in it, stacked.
  const columns = Math.max(1, Math.floor(inner));
  const chosen = new Int32Array(columns);
  for (let c = 0; c < columns; c++) {
    const [from, to] = [0, 1].map((d) => view[0] + ((c + d) / columns) * (view[1] - view[0]));
    let at = Math.max(0, last(byStart, from)), best = byStart[at], sum = totals[best];
    for (at += 1; at < size && start[byStart[at]] < to; at++) {
      const there = totals[byStart[at]];
      if (there > sum) { best = byStart[at]; sum = there; }
    }
    chosen[c] = best;
  }
  const base = new Float64Array(columns);
  levels.forEach((level, k) => {
    ctx.fillStyle = color(paint(memory.categories[k].word));
    ctx.beginPath();
    ctx.moveTo(LEFT, y(base[0]));
    for (let c = 0; c < columns; c++) { ctx.lineTo(LEFT + c, y(base[c] + level[chosen[c]])); ctx.lineTo(LEFT + c + 1, y(base[c] + level[chosen[c]])); }
    for (let c = columns - 1; c >= 0; c--) { ctx.lineTo(LEFT + c + 1, y(base[c])); ctx.lineTo(LEFT + c, y(base[c])); base[c] += level[chosen[c]]; }
    ctx.fill();
  });
  ctx.strokeStyle = color("--warn"); ctx.setLineDash([5, 4]);
  ctx.beginPath(); ctx.moveTo(LEFT, y(device)); ctx.lineTo(LEFT + inner, y(device)); ctx.stroke(); ctx.setLineDash([]);
  ctx.fillStyle = color("--warn"); ctx.textAlign = "right";
  ctx.fillText(`device ${bytes(device)}`, LEFT + inner - 4, y(device) + 9);

  const peak = summary.memory.peak_instruction;
  if (start[peak] >= view[0] && start[peak] <= view[1]) {
    const [px, py] = [x(start[peak]), y(totals[peak])];
    ctx.fillStyle = color("--ink"); ctx.beginPath(); ctx.arc(px, py, 4, 0, 7); ctx.fill();
    ctx.textAlign = px > width * 0.7 ? "right" : "left";
    ctx.fillText(`peak ${bytes(totals[peak])} alive`, px + (px > width * 0.7 ? -9 : 9), py - 8);
  }

  // Streams.
  const lane = (s) => TOP + MEMORY + GAP + s * (LANE + 10);
  ["compute", "comm"].forEach((word, s) => {
    ctx.fillStyle = color("--soft"); ctx.fillRect(LEFT, lane(s), inner, LANE);
    ctx.fillStyle = color("--quiet"); ctx.textAlign = "right"; ctx.fillText(word, LEFT - 8, lane(s) + LANE / 2);
    const list = streams[s], paints = data.bounds.map((_, b) => color(`--b${b}`));
    let at = Math.max(0, last(list, view[0])), until = -1;
    for (; at < list.length && start[list[at]] < view[1]; at++) {
      const i = list[at], to = Math.min(LEFT + inner, x(end[i]));
      // Only what shows by itself is drawn: pieces under half a pixel are drawn when half a pixel is full.
      if (to <= until) continue;
      const from = Math.max(LEFT, x(start[i]), until), wide = Math.max(0.5, to - from);
      ctx.fillStyle = paints[program.bound[i]];
      ctx.fillRect(from, lane(s), wide > 3 ? wide - 0.6 : wide, LANE);
      until = from + wide;
      if (wide > 64) {
        ctx.save(); ctx.beginPath(); ctx.rect(from, lane(s), wide - 4, LANE); ctx.clip();
        ctx.fillStyle = color("--card"); ctx.textAlign = "left";
        ctx.fillText(program.names[program.op[i]], from + 5, lane(s) + LANE / 2); ctx.restore();
      }
    }
  });

  // Time axis.
  const foot = lane(1) + LANE + 8, tick = nice(view[1] - view[0], Math.max(2, inner / 110));
  ctx.fillStyle = color("--quiet"); ctx.textAlign = "center"; ctx.textBaseline = "top";
  for (let t = Math.ceil(view[0] / tick) * tick; t <= view[1]; t += tick) ctx.fillText(t ? seconds(t) : "0", x(t), foot);
}

const timeAt = (px) => view[0] + ((px - LEFT) / ($("canvas").clientWidth - LEFT - 8)) * (view[1] - view[0]);

/** The instruction under the pointer: of a stream in its lane, above them the last one to have begun. */
function under(px, py) {
  const time = timeAt(px), lane = Math.floor((py - TOP - MEMORY - GAP) / (LANE + 10));
  if (lane !== 0 && lane !== 1) return byStart[Math.max(0, last(byStart, time))];
  const i = streams[lane][last(streams[lane], time)];
  return i !== undefined && end[i] >= time ? i : null;
}

function detail(px, py) {
  const tip = $("detail"), i = under(px, py);
  tip.hidden = i === null || i === undefined;
  if (tip.hidden) return;
  const rows = levels.map((level, k) => [memory.categories[k].word, level[i]]).filter((row) => row[1] > 0).sort((a, b) => b[1] - a[1]);
  const table = el("table", {}, ...rows.map(([word, n]) => el("tr", {}, el("td", {}, key(colorOf(word)), word), el("td", { class: "n" }, bytes(n)))));
  tip.replaceChildren(
    el("b", {}, `${i} · ${program.names[program.op[i]]}`), el("div", { class: "quiet" }, program.near[program.at[i]]),
    el("div", {}, `${seconds(start[i])} + ${seconds(end[i] - start[i])}, ${data.bounds[program.bound[i]]}`),
    el("div", {}, el("b", {}, bytes(totals[i])), " alive"), table);
  const box = $("step").getBoundingClientRect(), chart = $("chart").getBoundingClientRect();
  const right = px > chart.width / 2;
  tip.style.left = right ? "" : `${chart.left - box.left + px + 16}px`;
  tip.style.right = right ? `${box.right - chart.left - px + 16}px` : "";
  tip.style.top = `${chart.top - box.top + 12}px`;
}

let queued = false;
function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; draw(); });
}

function show(from, to) {
  const span = Math.min(length, Math.max(to - from, length / 20000));
  const first = Math.min(Math.max(0, from), length - span);
  view = [first, first + span];
  redraw();
}

function interact() {
  const canvas = $("canvas");
  canvas.addEventListener("pointermove", (e) => {
    const [px, py] = [e.offsetX, e.offsetY];
    if (drag) {
      const by = ((drag.x - px) / (canvas.clientWidth - LEFT - 8)) * (drag.view[1] - drag.view[0]);
      show(drag.view[0] + by, drag.view[1] + by);
    }
    const inside = px >= LEFT && !drag;
    $("cross").hidden = !inside;
    $("cross").style.left = `${px}px`;
    if (inside) detail(px, py); else $("detail").hidden = true;
  });
  canvas.addEventListener("pointerdown", (e) => { drag = { x: e.offsetX, view }; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { $("cross").hidden = $("detail").hidden = true; });
  canvas.addEventListener("dblclick", () => show(0, length));
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const time = timeAt(e.offsetX), by = Math.exp(e.deltaY * 0.0015);
    show(time - (time - view[0]) * by, time + (view[1] - time) * by);
  }, { passive: false });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  for (const { word } of memory.categories) $("legend").append(el("li", {}, key(colorOf(word)), word));
  data.bounds.forEach((word, i) => $("bounds").append(el("li", {}, key(`var(--b${i})`), word)));
}

// ---- Ranks ----------------------------------------------------------------------------------------------------------------

const axes = Object.fromEntries(data.axes.map(([name, ranks, stride]) => [name, { ranks, stride }]));
const names = data.axes.map((axis) => axis[0]);
const coordinate = (axis, rank) => Math.floor(rank / axes[axis].stride) % axes[axis].ranks;
const SHOWN = 2048;
let axisShown = names.find((name) => name === "ep" && axes.ep.ranks > 1) || "fsdp";

/** Elements of a tensor that a rank holds, as a range within the part of its `ep` coordinate; `null`: none. */
function shard([, , , unit, offset, elements], rank) {
  if (unit < 0) return [0, elements];
  const [, axis, whole, each] = data.units[unit];
  const first = coordinate(names[axis], rank) * each, from = Math.max(first, offset), to = Math.min(first + each, whole, offset + elements);
  return from < to ? [from - offset, to - offset] : null;
}

function grid() {
  const { devices_per_node: each, devices } = summary.cluster, shown = Math.min(devices, SHOWN);
  const columns = Math.ceil(Math.sqrt(each));
  for (let node = 0; node * each < shown; node++) {
    const box = el("div", { class: "node", title: `node ${node}`, style: `grid-template-columns:repeat(${columns},13px)` });
    for (let rank = node * each; rank < Math.min((node + 1) * each, shown); rank++)
      box.append(el("button", { "data-rank": rank, title: `rank ${rank}`, "aria-label": `rank ${rank}`, tabindex: -1 }));
    $("grid").append(box);
  }
  $("grid-note").textContent = `a frame is a node of ${each}${shown < devices ? `; ranks 0 to ${shown - 1} of ${devices} are drawn` : ""}`;
  $("grid").addEventListener("click", (e) => { if (e.target.dataset.rank) choose(+e.target.dataset.rank); });
  for (const name of names.filter((name) => name !== "world" && axes[name].ranks > 1)) {
    const button = el("button", { "data-axis": name }, name);
    button.addEventListener("click", () => { axisShown = name; choose(+$("rank").value); });
    $("groups").append(button);
  }
  $("rank").max = devices - 1;
  $("rank").addEventListener("input", () => choose(Math.min(devices - 1, Math.max(0, Math.floor(+$("rank").value) || 0))));
}

function choose(rank) {
  if (+$("rank").value !== rank) $("rank").value = rank;
  const { ranks, stride } = axes[axisShown], first = rank - coordinate(axisShown, rank) * stride;
  for (const cell of document.querySelectorAll("#grid button")) {
    const other = +cell.dataset.rank, by = other - first;
    cell.className = other === rank ? "own" : by >= 0 && by % stride === 0 && by / stride < ranks ? "near" : "";
  }
  for (const button of document.querySelectorAll("#groups button")) button.setAttribute("aria-pressed", button.dataset.axis === axisShown);
  let held = 0, whole = 0, experts = 0;
  const tensors = data.units.map(() => 0);
  for (const tensor of data.tensors) if (tensor[3] >= 0 && shard(tensor, rank)) tensors[tensor[3]] += 1;
  $("units").replaceChildren(...data.units.map(([name, axis, elements, each], i) => {
    const here = Math.max(0, Math.min(each, elements - coordinate(names[axis], rank) * each));
    held += here;
    whole += each;
    return el("tr", {}, el("td", {}, name), el("td", {}, names[axis]), ...[`${tensors[i]}`, count(here), bytes(each * data.bytes)].map((text) => el("td", { class: "n" }, text)));
  }));
  for (const tensor of data.tensors) if (tensor[3] >= 0 && names[data.units[tensor[3]][1]] === "ep_fsdp") experts = tensor[1][0];
  const mine = experts / axes.ep.ranks, from = coordinate("ep", rank) * mine;
  $("holds").textContent = `${count(held)} parameters in ${data.units.length} units, ${bytes(whole * data.bytes)} with gradients and moments` +
    (experts ? `; experts ${from}${mine > 1 ? `–${from + mine - 1}` : ""} of ${experts}` : "") +
    (whole > held ? `; ${count(whole - held)} elements of padding` : "");
  $("coordinates").replaceChildren(el("tr", {}, el("th", {}, "axis"), el("th", { class: "n" }, "ranks"), el("th", { class: "n" }, "distance"), el("th", { class: "n" }, "position")),
    ...names.filter((name) => name !== "world").map((name) => el("tr", {}, el("td", {}, name), el("td", { class: "n" }, `${axes[name].ranks}`), el("td", { class: "n" }, `${axes[name].stride}`), el("td", { class: "n" }, `${coordinate(name, rank)}`))));
  $("shard-rank").textContent = rank;
  rows();
}

// ---- Tensors --------------------------------------------------------------------------------------------------------------

function rows() {
  const rank = +$("rank").value, words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = data.tensors.filter(([name, , dtype, unit]) => {
    const text = `${name} ${dtype} ${unit < 0 ? "frozen" : `${data.units[unit][0]} ${names[data.units[unit][1]]}`}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  $("rows").replaceChildren(...found.map((tensor) => {
    const [name, shape, dtype, unit] = tensor, range = shard(tensor, rank), elements = shape.reduce((a, b) => a * b, 1);
    const part = range ? range[1] - range[0] : 0;
    return el("tr", {}, el("td", {}, name), el("td", { class: "shape" }, shape.join(" × ")), el("td", {}, dtype),
      el("td", {}, unit < 0 ? "frozen" : data.units[unit][0]), el("td", {}, unit < 0 ? "whole" : names[data.units[unit][1]]),
      el("td", { class: "n" }, count(elements)), el("td", { class: "shape" }, range ? `${range[0]}..${range[1]}` : "–"), el("td", { class: "n" }, part ? percent(part / elements) : ""));
  }));
  $("found").textContent = `${found.length} of ${data.tensors.length}`;
}

interact();
grid();
choose(0);
$("search").addEventListener("input", rows);
draw();
document.documentElement.dataset.ready = "1";
