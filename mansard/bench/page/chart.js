"use strict";
// Scales, charts and keys: everything that draws SVG, without knowing what the points mean.
const COLOURS = ["#2f7fd0", "#d1495b", "#3a9a52", "#9a6bc0", "#d08a2b", "#2fa3a5", "#a5714f", "#d0589a", "#6f7be0", "#96992f"];
const SHAPES = ["circle", "square", "diamond"];
const unique = list => [...new Set(list)];
const lowest = list => list.reduce((a, b) => Math.min(a, b), Infinity);
const highest = list => list.reduce((a, b) => Math.max(a, b), -Infinity);
const brief = value => Math.abs(value) >= 1e4 ? value.toExponential(1).replace("+", "").replace(".0", "") : String(+value.toPrecision(3));

// A style for each of many names: ten colours, then the same colours with another shape.
const styled = names => name => {
  const at = names.indexOf(name);
  return {colour: COLOURS[at % COLOURS.length], shape: SHAPES[Math.floor(at / COLOURS.length) % SHAPES.length]};
};

// A scale maps values to pixels; logarithmic ones have ticks at powers of ten, of two, or at round numbers if they span little.
function scale(low, high, from, to, isLog) {
  const span = isLog ? Math.log10(high / low) : high - low;
  if (span < 1e-9) { low = isLog ? low / 1.5 : low - 0.5; high = isLog ? high * 1.5 : high + 0.5; }
  const along = isLog ? Math.log10 : value => value;
  const map = value => from + (to - from) * (along(value) - along(low)) / (along(high) - along(low));
  const few = Math.max(3, Math.floor(Math.abs(to - from) / (to < from ? 40 : 70)));
  return {map, ticks: isLog && high / low > 4 ? powers(low, high, few) : steps(low, high, few)};
}

function steps(low, high, few) {
  const rough = (high - low) / few, ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(s => s * ten).find(s => s >= rough * 0.999), ticks = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step) ticks.push(value);
  return ticks;
}

function powers(low, high, few) {
  const base = high / low < 300 ? 2 : 10, ticks = [];
  const exponent = value => Math.log(value) / Math.log(base);
  const first = Math.ceil(exponent(low) - 1e-9), last = Math.floor(exponent(high) + 1e-9);
  for (let e = first; e <= last; e += Math.max(1, Math.ceil((last - first) / few))) ticks.push(base ** e);
  return ticks;
}

function mark(m, x, y) {
  const r = m.r || 3, same = `data-p=${m.p.number} data-name="${m.name || ""}" ` +
    (m.hollow ? `fill=none stroke="${m.colour}" stroke-width=1.5` : `fill="${m.colour}" fill-opacity=${m.opacity || 0.75}`);
  if (m.shape === "square") return `<rect x=${(x - r).toFixed(1)} y=${(y - r).toFixed(1)} width=${2 * r} height=${2 * r} ${same} />`;
  if (m.shape === "diamond") return `<path d="M${x.toFixed(1)} ${(y - 1.4 * r).toFixed(1)}l${1.4 * r} ${1.4 * r}l${-1.4 * r} ${1.4 * r}l${-1.4 * r} ${-1.4 * r}z" ${same} />`;
  return `<circle cx=${x.toFixed(1)} cy=${y.toFixed(1)} r=${r} ${same} />`;
}

// marks: {x, y, name, colour, shape, hollow, p, r}; lines: {points: [[x, y]], colour, name}. As wide as its place.
function chart(parent, options) {
  const {height = 320, marks = [], lines = [], xLog = true, yLog = true} = options;
  const xs = [...marks.map(m => m.x), ...lines.flatMap(l => l.points.map(q => q[0]))];
  const ys = [...marks.map(m => m.y), ...lines.flatMap(l => l.points.map(q => q[1]))];
  if (!xs.length) return;
  const figure = parent.appendChild(document.createElement("figure"));
  if (options.title) figure.appendChild(document.createElement("figcaption")).textContent = options.title;
  const width = Math.max(260, figure.clientWidth || parent.clientWidth);
  const pad = {left: 52, right: 14, top: 12, bottom: 38};
  const [yLow, yHigh] = options.yRange || [lowest(ys), highest(ys)];
  const x = scale(lowest(xs), highest(xs), pad.left, width - pad.right, xLog);
  const y = scale(yLow, yHigh, height - pad.bottom, pad.top, yLog);
  const inside = value => y.map(Math.min(Math.max(value, yLow), yHigh));
  let out = "";
  for (const t of x.ticks) out += `<line class=axis x1=${x.map(t)} x2=${x.map(t)} y1=${pad.top} y2=${height - pad.bottom} />` +
    `<text x=${x.map(t)} y=${height - pad.bottom + 15} text-anchor=middle>${brief(t)}</text>`;
  for (const t of y.ticks) out += `<line class=axis x1=${pad.left} x2=${width - pad.right} y1=${y.map(t)} y2=${y.map(t)} />` +
    `<text x=${pad.left - 6} y=${y.map(t) + 4} text-anchor=end>${brief(t)}</text>`;
  out += `<text x=${(width + pad.left) / 2} y=${height - 5} text-anchor=middle>${options.xLabel}</text>` +
    `<text transform="translate(12 ${height / 2}) rotate(-90)" text-anchor=middle>${options.yLabel}</text>`;
  for (const l of lines) {
    const path = l.points.map(([a, b]) => `${x.map(a).toFixed(1)},${inside(b).toFixed(1)}`).join(" ");
    out += `<polyline points="${path}" ${l.colour ? `fill=none stroke="${l.colour}" data-name="${l.name}"` : "class=roof"} />`;
  }
  for (const m of marks) out += mark(m, x.map(m.x), inside(m.y));
  for (const l of lines.filter(one => one.name && !one.colour)) {
    const [a, b] = l.points[l.points.length - 1];
    out += `<text class=named x=${x.map(a) - 4} y=${inside(b) + (b >= yHigh ? 12 : -5)} text-anchor=end>${l.name}</text>`;
  }
  figure.insertAdjacentHTML("beforeend", `<svg viewBox="0 0 ${width} ${height}" role=img aria-label="${options.title || options.yLabel}">${out}</svg>`);
}

// Names with their marks; pressing one shows it alone, pressing it again shows all.
function key(parent, names, style) {
  const line = parent.appendChild(document.createElement("p"));
  line.className = "key";
  let alone = null;
  for (const name of names) {
    const entry = line.appendChild(document.createElement("button")), {colour, shape} = style(name);
    entry.innerHTML = `<svg viewBox="0 0 12 12">${mark({colour, shape, r: 4, opacity: 1, p: {number: ""}}, 6, 6)}</svg>`;
    entry.append(name);
    entry.onclick = () => {
      alone = alone === name ? null : name;
      for (const each of parent.querySelectorAll("figure [data-name]")) each.classList.toggle("away", alone !== null && each.dataset.name !== alone);
      for (const other of line.children) other.classList.toggle("off", alone !== null && other !== entry);
    };
  }
}

// A table of colours: rows and columns are values of two parameters, cells the best of whatever else was varied.
function heat(parent, options) {
  const {rows, columns, cell, label} = options;
  const table = parent.appendChild(document.createElement("div"));
  table.className = "wide";
  let out = `<table class=heat><tr><th>${options.corner}</th>${columns.map(c => `<th>${c}</th>`).join("")}</tr>`;
  for (const r of rows) {
    out += `<tr><th>${r}</th>` + columns.map(c => {
      const found = cell(r, c);
      return found ? `<td style="background: hsl(${Math.max(0, 130 - 130 * (found.ratio - 1))} 60% 45%)" data-p=${found.p.number}>${label(found)}</td>` : "<td></td>";
    }).join("") + "</tr>";
  }
  table.innerHTML = out + "</table>";
}
