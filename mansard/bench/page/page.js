"use strict";
// Points come by columns; texts are numbers into data.words. Each section below is a question about `points`.
const data = JSON.parse(document.getElementById("data").textContent);
const columns = data.columns, count = columns.op.length;
const points = Array.from({length: count}, (_, i) => {
  const point = {number: i};
  for (const name in columns) point[name] = data.texts.includes(name) ? data.words[columns[name][i]] : columns[name][i];
  return point;
});
const isOurs = p => p.who === data.ours;
const isStale = p => p.age === "stale";
const chosen = points.filter(p => isOurs(p) && !p.pinned);
const DTYPES = ["float64", "float32", "complex128", "complex64"];
const CROWD = 1.5; // rows of a size, in the mean: beyond, cases differ in more than the size, and no line joins them
const NAMED = 30; // cases that have room for their names

const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";
function point(event) {
  const number = event.target.dataset && event.target.dataset.p;
  tip.style.display = number ? "block" : "none";
  if (!number) return;
  tip.textContent = told(points[number]);
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8) + "px";
}
addEventListener("mousemove", point);
addEventListener("click", point);

function told(p) {
  const lines = [`${p.op}: ${p.dtype} ${p.size}, K = ${p.k}`, `${p.who}: ${p.us} us +- ${p.spread} %`];
  if (p.limit) lines.push(`${p.limit} % of the limit, ${p.gflops} GFLOP/s`);
  if (p.peer) lines.push(`${p.peer} x ${p.best}`);
  if (p.kernel) lines.push(p.kernel);
  if (p.age && p.age !== "current") lines.push(`kernel: ${p.age}`);
  return lines.join("\n");
}

function section(title, text) {
  const part = document.getElementById(title.toLowerCase().replaceAll(" ", "-"));
  part.textContent = "";
  part.appendChild(document.createElement("h2")).textContent = title;
  part.appendChild(document.createElement("p")).textContent = text;
  return part;
}

function choice(part, label, options, draw) {
  const box = part.appendChild(document.createElement("label")), select = document.createElement("select");
  box.append(label + " ", select);
  for (const [text, value] of options) select.add(new Option(text, value));
  const place = part.appendChild(document.createElement("div"));
  select.onchange = () => { place.textContent = ""; draw(place, select.value); };
  select.onchange();
  return select.onchange;
}

function roofline() {
  const rows = chosen.filter(p => p.intensity && p.gflops && !p.op.includes("in cache"));
  const part = section("Roofline", rows.length ? "Every case out of cache: operations per byte that must be moved, and the rate that was reached. " +
    "Dashed: this device's ceilings. Press a name to see it alone; hollow marks are of kernels that have changed since." : "No case out of cache.");
  const nameOf = p => p.op.split(",")[0], names = unique(rows.map(nameOf)), style = styled(names);
  return choice(part, "dtype", [["all", ""], ...DTYPES.filter(d => rows.some(p => p.dtype === d)).map(d => [d, d])], (place, dtype) => {
    const shown = rows.filter(p => !dtype || p.dtype === dtype);
    const marks = shown.map(p => ({x: p.intensity, y: p.gflops, name: nameOf(p), ...style(nameOf(p)), hollow: isStale(p), p, r: 2.2, opacity: 0.6}));
    chart(place, {marks, lines: ceilings(shown), xLabel: "flops per byte", yLabel: "GFLOP/s", height: 480});
    key(place, names.filter(name => shown.some(p => nameOf(p) === name)), style);
  });
}

const real = dtype => ({complex128: "float64", complex64: "float32"})[dtype] || dtype; // whose operations complex numbers take

function ceilings(rows) {
  const roofs = data.roofs, xs = rows.map(p => p.intensity), low = lowest(xs), high = highest(xs), flat = [];
  if (!roofs.read || !rows.length) return [];
  for (const [kind, rates] of [["FMA", roofs.fma], ["tensor cores", roofs.tensor || {}]])
    for (const dtype of DTYPES.filter(d => rates[d] && rows.some(p => real(p.dtype) === d))) flat.push([rates[dtype], `${kind} ${dtype}`]);
  flat.sort((a, b) => a[0] - b[0]);
  const knee = flat.length ? Math.min(high, highest(flat.map(f => f[0])) / roofs.read) : high;
  const lines = [{points: [[low, low * roofs.read / 1e9], [knee, knee * roofs.read / 1e9]], name: "read bandwidth"}];
  flat.forEach(([rate, name], i) => {  // names of ceilings that lie close together stand in one line
    const next = flat[i + 1], joins = next && next[0] < 1.4 * rate;
    if (joins) next[1] = `${name}, ${next[1]}`;
    if (rate / roofs.read < high) lines.push({points: [[rate / roofs.read, rate / 1e9], [high, rate / 1e9]], name: joins ? "" : name});
  });
  return lines;
}

// One chart per operation: % of the limit over the size, of the set with most sizes; by name where cases are few and differ otherwise.
function curves() {
  const part = section("By size", "% of the device's limit, ours and the peers', of the set with most sizes; axes end at 120 %. " +
    "Where cases differ in more than the size, marks are not joined. Hollow marks: the kernel has changed since.");
  return choice(part, "dtype", DTYPES.filter(d => chosen.some(p => p.dtype === d)).map(d => [d, d]), (place, dtype) => {
    place.className = "grid";
    for (const op of unique(chosen.map(p => p.op))) curve(place, op, dtype);
  });
}

function curve(grid, op, dtype) {
  const rows = points.filter(p => p.op === op && p.dtype === dtype && !p.pinned && p.limit);
  const sets = unique(rows.filter(isOurs).map(p => p.set));
  const ofSet = set => rows.filter(p => isOurs(p) && p.set === set), sizesOf = set => unique(ofSet(set).map(p => p.x)).length;
  const set = sets.sort((a, b) => sizesOf(b) - sizesOf(a))[0];
  if (set === undefined || ofSet(set).length < 3) return;
  const crowded = ofSet(set).length > CROWD * sizesOf(set) || ofSet(set).some(p => !/^\d/.test(p.size));
  const named = crowded && ofSet(set).length <= NAMED;
  const cases = unique(ofSet(set).map(p => p.case));
  const xOf = p => named ? cases.indexOf(p.case) + 1 : p.x;
  const whos = unique([data.ours, ...rows.filter(p => p.set === set).map(p => p.who)]), style = styled(whos);
  const lines = [], marks = [], box = grid.appendChild(document.createElement("div"));
  for (const who of whos) {
    const mine = rows.filter(p => p.set === set && p.who === who && xOf(p) > 0);
    const best = new Map();  // of several rows of a case the fastest, by its share of the limit
    for (const p of mine) if (!best.has(p.case) || best.get(p.case).limit < p.limit) best.set(p.case, p);
    const sorted = [...best.values()].sort((a, b) => xOf(a) - xOf(b));
    if (!crowded) lines.push({points: sorted.map(p => [p.x, p.limit]), name: who, ...style(who)});
    marks.push(...sorted.map(p => ({x: xOf(p), y: p.limit, name: who, ...style(who), hollow: isStale(p), p, r: 2.4, opacity: 0.9})));
  }
  chart(box, {marks, lines, xLog: !named, yLog: false, yRange: [0, 120], height: 250,
    xLabel: named ? "case (point at a mark)" : "size", yLabel: "% of limit", title: `${op} (${set})`});
  key(box, whos, style);
}

function settings(p) { return Object.fromEntries(p.kernel.split(" ").map(word => word.split("="))); }

function landscape() {
  const groups = new Map();
  for (const p of points.filter(one => one.pinned && isOurs(one))) {
    const name = `${p.op} ${p.dtype} ${p.size} K ${p.k} (${p.set})`;
    groups.set(name, [...(groups.get(name) || []), p]);
  }
  const wide = [...groups.entries()].filter(([, list]) => list.length >= 4).sort((a, b) => b[1].length - a[1].length);
  const part = section("Tuning landscape", wide.length ? "Configurations that were tried for one problem: time over the best one's. Above, the best of each pair " +
    "of the two parameters with most values; below, every configuration, fastest first." : "No set with pinned configurations was measured here.");
  if (!wide.length) return () => {};
  return choice(part, "problem", wide.map(([name, list]) => [`${name}: ${list.length}`, name]), (place, name) => {
    const list = groups.get(name).slice().sort((a, b) => a.us - b.us), best = list[0].us;
    pairs(place, list, best);
    chart(place, {marks: list.map((p, i) => ({x: i + 1, y: p.us / best, colour: COLOURS[0], hollow: isStale(p), p, r: 3})), xLog: false,
      yLog: list[list.length - 1].us > 4 * best, height: 260, xLabel: "configurations, fastest first", yLabel: "time over the best"});
  });
}

function pairs(place, list, best) {
  const given = list.map(settings), values = {};
  for (const one of given) for (const name in one) (values[name] = values[name] || new Set()).add(one[name]);
  const several = Object.keys(values).filter(name => values[name].size > 1).sort((a, b) => values[b].size - values[a].size);
  if (several.length < 2) return;
  const [row, column] = several, order = name => [...values[name]].sort((a, b) => a - b || a.localeCompare(b));
  const found = (r, c) => { const at = given.findIndex(one => one[row] === r && one[column] === c); return at < 0 ? null : {ratio: list[at].us / best, p: list[at]}; };
  heat(place, {rows: order(row), columns: order(column), corner: `${row} \\ ${column}`, cell: found, label: each => each.ratio.toFixed(2)});
}

function model() {
  const rows = chosen.filter(p => p.predicted && p.us), names = unique(rows.map(p => p.op)), style = styled(names), xs = rows.map(p => p.us);
  const part = section("Model against measurement", rows.length ? "Time that the model predicted before the run, over the time that was measured. At 1 they agree. " +
    "Of other operations the prediction is the roofline itself: their share of the limit is above." : "No row with a prediction.");
  chart(part, {marks: rows.map(p => ({x: p.us, y: p.predicted / p.us, name: p.op, ...style(p.op), hollow: isStale(p), p})),
    lines: [{points: [[lowest(xs), 1], [highest(xs), 1]]}].slice(rows.length ? 0 : 1), yLog: false, xLabel: "us measured", yLabel: "predicted / measured"});
  key(part, names, style);
}

function energy() {
  const byCase = new Map(), marks = [];
  for (const p of points.filter(one => one.joules && !one.pinned)) byCase.set(p.case, [...(byCase.get(p.case) || []), p]);
  for (const list of byCase.values()) {
    const own = list.find(isOurs), peer = list.filter(p => !isOurs(p)).sort((a, b) => a.us - b.us)[0];
    if (own && peer) marks.push({x: peer.us / own.us, y: peer.joules / own.joules, name: own.op, p: own});
  }
  const names = unique(marks.map(m => m.name)), style = styled(names), xs = marks.map(m => m.x);
  for (const m of marks) Object.assign(m, style(m.name));
  const part = section("Energy", marks.length ? "Speedup, and greenup: joules of the fastest peer over ours, net of idle. On the line both are equal; below it the peer draws less power."
    : "No row has joules: mansard bench FAMILY --energy measures them where the device has a meter.");
  chart(part, {marks, lines: marks.length ? [{points: [lowest(xs), highest(xs)].map(e => [e, e])}] : [], xLabel: "speedup", yLabel: "greenup"});
  key(part, names, style);
}

function drawAll() {
  for (const draw of [roofline, curves, landscape, model, energy]) draw();
}
drawAll();
let drawn = innerWidth, later = 0;
addEventListener("resize", () => {  // charts are as wide as the window
  clearTimeout(later);
  later = setTimeout(() => { if (innerWidth !== drawn) { drawn = innerWidth; drawAll(); } }, 200);
});
