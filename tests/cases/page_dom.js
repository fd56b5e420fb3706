// Runs the script of a report page with the few parts of a browser that it uses: node page_dom.js index.html
// Prints one line of JSON: what every section drew, with each choice of its list, and the processor's seconds.
"use strict";
const fs = require("fs"), vm = require("vm");
const html = fs.readFileSync(process.argv[2], "utf8");

class Classes {
  constructor() { this.names = new Set(); }
  toggle(name, on) { if (on) this.names.add(name); else this.names.delete(name); }
}

class Element {
  constructor(tag) {
    Object.assign(this, {tag, children: [], text: "", html: "", style: {}, dataset: {}, options: [], classList: new Classes(),
      clientWidth: 800, offsetWidth: 100, offsetHeight: 20, marks: null});
  }
  appendChild(child) { this.children.push(child); return child; }
  append(...parts) { for (const part of parts) typeof part === "string" ? (this.text += part) : this.children.push(part); }
  set textContent(text) { this.children = []; this.html = ""; this.marks = null; this.text = String(text); }
  get textContent() { return this.text; }
  set innerHTML(text) { this.html = text; }
  insertAdjacentHTML(where, text) { this.html += text; }
  add(option) { this.options.push(option); if (this.options.length === 1) this.value = option.value; }
  named() {  // stand-ins for the marks in this element's SVG
    this.marks = this.marks || [...this.html.matchAll(/data-name="([^"]*)"/g)].map(found => ({dataset: {name: found[1]}, classList: new Classes()}));
    return this.tag === "figure" ? this.marks : [];
  }
  querySelectorAll() { return [...this.named(), ...this.children.flatMap(child => child.querySelectorAll())]; }
  all() { return this.html + this.text + this.children.map(child => child.all()).join(" "); }
  find(tag) { return [...(this.tag === tag ? [this] : []), ...this.children.flatMap(child => child.find(tag))]; }
}

const byId = {}, listeners = {};
for (const found of html.matchAll(/<section id='([^']*)'>/g)) byId[found[1]] = new Element("section");
byId.data = new Element("script");
byId.data.text = html.match(/<script id='data' type='application\/json'>([^]*?)<\/script>/)[1];
const body = new Element("body");
const context = vm.createContext({
  document: {getElementById: id => byId[id], createElement: tag => new Element(tag), body},
  Option: class { constructor(text, value) { Object.assign(this, {text, value}); } },
  addEventListener: (name, call) => { (listeners[name] = listeners[name] || []).push(call); },
  innerWidth: 1200, innerHeight: 900, clearTimeout: () => {}, setTimeout: call => { call(); return 1; },
});
const script = html.match(/<script>([^]*)<\/script>/)[1];

const before = process.cpuUsage();
vm.runInContext(script, context);
const spent = process.cpuUsage(before), seconds = (spent.user + spent.system) / 1e6;

const broken = text => (text.match(/NaN|undefined|Infinity|null/g) || []).length;
const sections = {};
for (const [id, part] of Object.entries(byId)) {
  if (id === "data") continue;
  const seen = {svgs: 0, marks: 0, tables: 0, broken: 0, choices: 0, hidden: 0};
  const look = () => {
    const drawn = part.all();
    seen.svgs += (drawn.match(/<svg /g) || []).length;
    seen.marks += (drawn.match(/data-p=\d/g) || []).length;
    seen.tables += (drawn.match(/<table /g) || []).length;
    seen.broken += broken(part.find("figure").map(each => each.html).join(" ") + part.find("div").map(each => each.html).join(" "));
  };
  const lists = part.find("select");
  if (!lists.length) look();
  for (const list of lists) for (const option of list.options.slice(0, 12)) {  // as many problems have a landscape
    list.value = option.value;
    list.onchange();
    seen.choices += 1;
    look();
  }
  for (const list of lists) { list.value = list.options[0].value; list.onchange(); }
  const button = part.find("button")[0];
  if (button) {
    button.onclick();
    seen.hidden = part.querySelectorAll().filter(each => each.classList.names.has("away")).length;
    button.onclick();
    seen.shown = part.querySelectorAll().filter(each => each.classList.names.has("away")).length === 0;
  }
  sections[id] = seen;
}
const tip = body.children[0];
for (const call of listeners.mousemove) call({target: {dataset: {p: "0"}}, clientX: 10, clientY: 10});
const told = tip.text;
for (const call of listeners.mousemove) call({target: {dataset: {}}, clientX: 10, clientY: 10});
context.innerWidth = 400;  // a narrower window: everything is drawn again
for (const call of listeners.resize) call();
console.log(JSON.stringify({seconds, sections, told, hides: tip.style.display === "none"}));
