"use strict";
// Points come by columns; texts are numbers into data.words. Everything below draws SVG from `points`.
const data = JSON.parse(document.getElementById("data").textContent);
const columns = data.columns, count = columns.op.length;
const points = Array.from({length: count}, (_, i) => {
  const point = {};
  for (const name in columns) point[name] = data.texts.includes(name) ? data.words[columns[name][i]] : columns[name][i];
  return point;
});
const main = document.getElementById("pictures");
const isOurs = p => p.who === data.ours;
const chosen = points.filter(p => isOurs(p) && !p.pinned);
const COLOURS = ["#0b6fa4", "#d1495b", "#3a7d44", "#8d5fa8", "#c9822b", "#4fa3a5", "#7a5c48", "#b5386a", "#5566cc", "#888a2a"];
const DTYPES = ["float64", "float32", "complex128", "complex64"];
const unique = list => [...new Set(list)];
const colourOf = names => name => COLOURS[names.indexOf(name) % COLOURS.length];

const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";
addEventListener("mousemove", event => {
  const number = event.target.dataset && event.target.dataset.p;
  tip.style.display = number === undefined ? "none" : "block";
  if (number === undefined) return;
  tip.textContent = told(points[number]);
  tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8) + "px";
});
points.forEach((p, i) => { p.number = i; });

function told(p) {
  const lines = [`${p.op}: ${p.dtype} ${p.size}, K = ${p.k}`, `${p.who}: ${p.us} us +- ${p.spread} %`];
  if (p.limit) lines.push(`${p.limit} % of the limit, ${p.gflops} GFLOP/s`);
  if (p.peer) lines.push(`${p.peer} x ${p.best}`);
  if (p.kernel) lines.push(p.kernel);
  if (p.age && p.age !== "current") lines.push(`kernel: ${p.age}`);
  return lines.join("\n");
}

function section(title, text) {
  const part = main.appendChild(document.createElement("section"));
  part.appendChild(document.createElement("h2")).textContent = title;
  part.appendChild(document.createElement("p")).textContent = text;
  return part;
}

// A scale maps values to pixels; logarithmic ones have ticks at powers of ten, or of two if they span few.
function scale(low, high, from, to, isLog) {
  if (isLog) { low = Math.log10(low); high = Math.log10(high); }
  if (high - low < 1e-9) { high += 0.5; low -= 0.5; }
  const map = value => from + (to - from) * ((isLog ? Math.log10(value) : value) - low) / (high - low);
  const ticks = [];
  if (isLog) {
    const base = high - low < 2.2 ? 2 : 10;
    const first = Math.ceil(low / Math.log10(base) - 1e-9), last = Math.floor(high / Math.log10(base) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first) / 8));
    for (let e = first; e <= last; e += step) ticks.push(base ** e);
  } else {
    const step = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500].find(s => (high - low) / s <= 7) || (high - low) / 5;
    for (let value = Math.ceil(low / step) * step; value <= high + 1e-9; value += step) ticks.push(value);
  }
  return {map, ticks};
}

const brief = value => Math.abs(value) >= 1e4 ? value.toExponential(0).replace("+", "") : String(+value.toPrecision(3));

// marks: {x, y, colour, p, r}; lines: {points: [[x, y]], colour, name}
function chart(parent, options) {
  const {width = 900, height = 460, marks = [], lines = [], xLog = true, yLog = true} = options;
  const pad = {left: 56, right: 14, top: 16, bottom: 40};
  const xs = [...marks.map(m => m.x), ...lines.flatMap(l => l.points.map(q => q[0]))];
  const ys = [...marks.map(m => m.y), ...lines.flatMap(l => l.points.map(q => q[1]))];
  if (!xs.length) return;
  const [yLow, yHigh] = options.yRange || [lowest(ys), highest(ys)];
  const x = scale(lowest(xs), highest(xs), pad.left, width - pad.right, xLog);
  const y = scale(yLow, yHigh, height - pad.bottom, pad.top, yLog);
  let out = "";
  for (const t of x.ticks) out += `<line class=axis x1=${x.map(t)} x2=${x.map(t)} y1=${pad.top} y2=${height - pad.bottom} />` +
    `<text x=${x.map(t)} y=${height - pad.bottom + 15} text-anchor=middle>${brief(t)}</text>`;
  for (const t of y.ticks) out += `<line class=axis x1=${pad.left} x2=${width - pad.right} y1=${y.map(t)} y2=${y.map(t)} />` +
    `<text x=${pad.left - 6} y=${y.map(t) + 4} text-anchor=end>${brief(t)}</text>`;
  out += `<text x=${(width + pad.left) / 2} y=${height - 6} text-anchor=middle>${options.xLabel}</text>`;
  out += `<text transform="translate(13 ${height / 2}) rotate(-90)" text-anchor=middle>${options.yLabel}</text>`;
  for (const l of lines) {
    const path = l.points.map(([a, b]) => `${x.map(a).toFixed(1)},${y.map(Math.min(Math.max(b, yLow), yHigh)).toFixed(1)}`).join(" ");
    out += `<polyline points="${path}" ${l.colour ? `fill=none stroke="${l.colour}"` : "class=roof"} />`;
    if (l.name) { const [a, b] = l.points[l.points.length - 1]; out += `<text x=${x.map(a) - 4} y=${y.map(b) - 5} text-anchor=end>${l.name}</text>`; }
  }
  for (const m of marks) out += `<circle cx=${x.map(m.x).toFixed(1)} cy=${y.map(Math.min(Math.max(m.y, yLow), yHigh)).toFixed(1)} ` +
    `r=${m.r || 3} fill="${m.colour}" fill-opacity=${m.opacity || 0.7} data-p=${m.p.number} />`;
  const figure = parent.appendChild(document.createElement("figure"));
  figure.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role=img aria-label="${options.title}">${out}</svg>`;
  if (options.title) figure.appendChild(document.createElement("figcaption")).textContent = options.title;
}

const lowest = list => list.reduce((a, b) => Math.min(a, b), Infinity);
const highest = list => list.reduce((a, b) => Math.max(a, b), -Infinity);

function key(parent, names, colour) {
  const line = parent.appendChild(document.createElement("p"));
  line.className = "key";
  for (const name of names) {
    line.appendChild(document.createElement("b")).style.background = colour(name);
    line.append(name);
  }
}

function roofline() {
  const rows = chosen.filter(p => p.intensity && p.gflops && !p.op.includes("in cache"));
  if (!rows.length) return;
  const part = section("Roofline", "Every case out of cache: operations per byte that must be moved, and the rate that was reached. Dashed: this device's ceilings.");
  const names = unique(rows.map(p => p.op.split(",")[0])), colour = colourOf(names);
  const xs = rows.map(p => p.intensity), low = lowest(xs), high = highest(xs), lines = [];
  const roofs = data.roofs;
  if (roofs.read) {
    const peak = Math.max(...Object.values(roofs.fma), ...Object.values(roofs.tensor || {}));
    const knee = Math.min(high, peak / roofs.read);
    lines.push({points: [[low, low * roofs.read / 1e9], [knee, knee * roofs.read / 1e9]], name: "read bandwidth"});
    const flat = [];
    for (const [kind, rates] of [["FMA", roofs.fma], ["tensor cores", roofs.tensor || {}]])
      for (const dtype of DTYPES.filter(d => rates[d] && rows.some(p => p.dtype === d))) flat.push([rates[dtype], `${kind} ${dtype}`]);
    flat.sort((a, b) => a[0] - b[0]);
    flat.forEach(([rate, name], i) => {  // names of ceilings that lie close together stand in one line
      const next = flat[i + 1], joins = next && next[0] < 1.4 * rate;
      if (joins) next[1] = `${name}, ${next[1]}`;
      lines.push({points: [[Math.min(high, rate / roofs.read), rate / 1e9], [high, rate / 1e9]], name: joins ? "" : name});
    });
  }
  chart(part, {marks: rows.map(p => ({x: p.intensity, y: p.gflops, colour: colour(p.op.split(",")[0]), p, r: 2.2, opacity: 0.55})), lines,
    xLabel: "flops per byte", yLabel: "GFLOP/s", title: "roofline", height: 520});
  key(part, names, colour);
}

// The cases of an operation that differ in nothing but the size: one line per contender; the longest such family of cases.
function curves() {
  const part = section("By size", "% of the device's limit over the size, ours and the peers', of the set with most sizes. Axes end at 120 %.");
  const label = part.appendChild(document.createElement("label"));
  label.textContent = "dtype ";
  const select = label.appendChild(document.createElement("select"));
  const grid = part.appendChild(document.createElement("div"));
  grid.className = "grid";
  const whos = unique(points.filter(p => !p.pinned).map(p => p.who)), colour = colourOf(unique([data.ours, ...whos]));
  for (const dtype of DTYPES.filter(d => chosen.some(p => p.dtype === d))) select.add(new Option(dtype));
  const draw = () => {
    grid.textContent = "";
    const shown = new Set();
    for (const op of unique(chosen.map(p => p.op))) curve(grid, op, select.value, colour, shown);
    key(grid, [...shown], colour);
  };
  select.onchange = draw;
  draw();
}

function curve(grid, op, dtype, colour, shown) {
  const rows = points.filter(p => p.op === op && p.dtype === dtype && !p.pinned && p.limit);
  const sets = unique(rows.filter(isOurs).map(p => p.set));
  const sizesOf = set => unique(rows.filter(p => isOurs(p) && p.set === set).map(p => p.x)).length;
  const set = sets.sort((a, b) => sizesOf(b) - sizesOf(a))[0];
  if (set === undefined || sizesOf(set) < 3) return;
  const inside = rows.filter(p => p.set === set), lines = [], marks = [];
  for (const who of unique(inside.map(p => p.who))) {
    const best = new Map();  // of several rows of a size the fastest, by its share of the limit
    for (const p of inside.filter(p => p.who === who)) if (!best.has(p.x) || best.get(p.x).limit < p.limit) best.set(p.x, p);
    const sorted = [...best.values()].sort((a, b) => a.x - b.x);
    shown.add(who);
    lines.push({points: sorted.map(p => [p.x, p.limit]), colour: colour(who)});
    marks.push(...sorted.map(p => ({x: p.x, y: p.limit, colour: colour(who), p, r: 2.4, opacity: 0.9})));
  }
  chart(grid, {marks, lines, yLog: false, yRange: [0, 120], width: 420, height: 250, xLabel: "size", yLabel: "% of limit", title: `${op} (${set})`});
}

function landscape() {
  const pinned = points.filter(p => p.pinned && isOurs(p));
  const groups = new Map();
  for (const p of pinned) {
    const name = `${p.op} ${p.dtype} ${p.size} K ${p.k} (${p.set})`;
    groups.set(name, [...(groups.get(name) || []), p]);
  }
  const wide = [...groups.entries()].filter(([, list]) => list.length >= 4).sort((a, b) => b[1].length - a[1].length);
  if (!wide.length) return;
  const part = section("Tuning landscape", "Every configuration that was tried by hand for one problem: time over the best one's. " +
    "A flat line of marks near 1 means that the choice hardly matters.");
  const select = part.appendChild(document.createElement("select")), place = part.appendChild(document.createElement("div"));
  for (const [name, list] of wide) select.add(new Option(`${name}: ${list.length}`, name));
  const draw = () => {
    place.textContent = "";
    const list = groups.get(select.value).slice().sort((a, b) => a.us - b.us);
    chart(place, {marks: list.map((p, i) => ({x: i + 1, y: p.us / list[0].us, colour: COLOURS[0], p, r: 4})), xLog: false,
      height: 300, xLabel: "configurations, fastest first", yLabel: "time over the best", title: select.value});
  };
  select.onchange = draw;
  draw();
}

function model() {
  const rows = chosen.filter(p => p.predicted);
  if (!rows.length) return;
  const part = section("Model against measurement", "Time that the model predicted before the run, over the time that was measured. At 1 they agree.");
  const names = unique(rows.map(p => p.op)), colour = colourOf(names), xs = rows.map(p => p.us);
  chart(part, {marks: rows.map(p => ({x: p.us, y: p.predicted / p.us, colour: colour(p.op), p})),
    lines: [{points: [[lowest(xs), 1], [highest(xs), 1]]}], yLog: false, height: 320, xLabel: "us measured", yLabel: "predicted / measured", title: "model"});
  key(part, names, colour);
}

function energy() {
  const rows = points.filter(p => p.joules && !p.pinned), byCase = new Map();
  for (const p of rows) byCase.set(p.case, [...(byCase.get(p.case) || []), p]);
  const marks = [];
  for (const list of byCase.values()) {
    const own = list.find(isOurs), peers = list.filter(p => !isOurs(p)).sort((a, b) => a.us - b.us);
    if (own && peers.length) marks.push({x: peers[0].us / own.us, y: peers[0].joules / own.joules, p: own, op: own.op});
  }
  if (!marks.length) return;
  const part = section("Energy", "Speedup and greenup (joules of the fastest peer over ours, net of idle). On the line both are equal; below it the peer draws less power.");
  const names = unique(marks.map(m => m.op)), colour = colourOf(names), xs = marks.map(m => m.x);
  for (const m of marks) m.colour = colour(m.op);
  const ends = [lowest(xs), highest(xs)];
  chart(part, {marks, lines: [{points: ends.map(e => [e, e])}], height: 340, xLabel: "speedup", yLabel: "greenup", title: "energy"});
  key(part, names, colour);
}

for (const draw of [roofline, curves, landscape, model, energy]) draw();
