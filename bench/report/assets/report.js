// Draws the plots of the page from the JSON in #report-data. The tables and the
// text are there without it.
(() => {
"use strict";

const data = JSON.parse(document.getElementById("report-data").textContent);

const QUANTITIES = [
  {key: "rate", name: "Rate"},
  {key: "rtt", name: "RTT"},
  {key: "queue", name: "Queue"},
];
const COLOURS = 8;
const DASHES = [null, [8, 4], [3, 3]]; // for the second and third round of colours
const LEGEND = 8; // a longer one folds

// Units: the largest prefix in which the greatest value is at least 1.

const PREFIXES = {
  bps: [[1e12, "Tbps"], [1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
};

function scaleFor(unit, greatest) {
  const steps = PREFIXES[unit];
  const [size, label] = steps.find(([size]) => greatest >= size) ?? steps[steps.length - 1];
  return {size, label};
}

function greatestOf(arrays) {
  let most = 0;
  for (const a of arrays) for (const v of a) if (v > most) most = v;
  return most;
}

function text(x) {
  if (x === 0) return "0";
  const digits = Math.max(0, 3 - Math.floor(Math.log10(Math.abs(x))));
  return x.toFixed(Math.min(digits, 6));
}

function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes ?? {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false && v != null) e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

// css reads a custom property of the page, which depends on the colour scheme.
function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function swatch(line) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  for (const [k, v] of [["width", 20], ["height", 10], ["aria-hidden", "true"]]) svg.setAttribute(k, v);
  const stroke = document.createElementNS(ns, "line");
  for (const [k, v] of [["x1", 0], ["x2", 20], ["y1", 5], ["y2", 5], ["stroke", line.colour],
    ["stroke-width", line.width + 1], ["stroke-dasharray", (line.dash ?? []).join(" ")]]) stroke.setAttribute(k, v);
  svg.append(stroke);
  return svg;
}

// A Run owns the plots of one scenario: they share the time axis, the cursor, and,
// quantity by quantity, the value axis.
class Run {
  constructor(run, host) {
    this.run = run;
    this.host = host;
    this.several = run.systems.length > 1;
    this.view = "split";
    this.hidden = new Set(); // what the legend switched off, by name
    this.charts = [];

    let first = Infinity, last = -Infinity;
    for (const {plots} of run.systems) {
      for (const {t} of Object.values(plots)) {
        if (t.length) { first = Math.min(first, t[0]); last = Math.max(last, t[t.length - 1]); }
      }
    }
    if (first > last) { first = 0; last = 1; }
    this.time = scaleFor("s", last);
    this.full = [first / this.time.size, last / this.time.size];
    if (this.full[0] === this.full[1]) this.full = [this.full[0] - 0.5, this.full[1] + 0.5];
    this.x = [...this.full];

    this.quantities = QUANTITIES.filter(({key}) => run.systems.some((s) => s.plots[key])).map((q) => {
      const plots = run.systems.map((s) => s.plots[q.key]).filter(Boolean);
      return {...q, ...scaleFor(plots[0].unit, greatestOf(plots.flatMap((p) => p.series.map((s) => s.v)))), most: 1};
    });
    this.colours = new Map(); // of a label, the same in all plots of the run
    for (const q of QUANTITIES) {
      for (const s of run.systems) {
        for (const {label, summary} of s.plots[q.key]?.series ?? []) {
          if (!summary && !this.colours.has(label)) this.colours.set(label, this.colours.size);
        }
      }
    }
    this.buildTools();
    this.body = element("div");
    this.host.append(this.body);
    this.resized = new ResizeObserver((entries) => {
      for (const {target} of entries) target.chart?.resize();
    });
    this.build();
  }

  buildTools() {
    const tools = element("div", {class: "tools"});
    if (this.several) {
      const name = `view-${this.host.dataset.run}`;
      const choice = (value, words) => element("label", {},
        element("input", {type: "radio", name, value, checked: value === this.view, onchange: () => {
          this.view = value;
          this.hidden.clear();
          this.build();
        }}), words);
      tools.append(element("fieldset", {}, element("legend", {class: "unseen"}, "Arrangement of the plots"),
        choice("split", "Side by side"), choice("overlay", "Overlaid")));
    }
    const button = (words, label, act) => element("button", {type: "button", "aria-label": label, title: label, onclick: act}, words);
    this.reset = button("Whole run", "Show the whole run", () => this.zoom(...this.full));
    tools.append(element("div", {class: "buttons", role: "group", "aria-label": "Time axis of all plots of this scenario"},
      button("−", "Zoom out", () => this.zoomBy(2)), button("+", "Zoom in", () => this.zoomBy(0.5)),
      button("←", "Earlier", () => this.pan(-0.5)), button("→", "Later", () => this.pan(0.5)), this.reset));
    this.readout = element("span", {class: "readout hint", role: "status"});
    tools.append(element("span", {class: "hint"},
      "Drag across a plot to zoom, double-click for the whole run. With a plot in focus: arrow keys, + and −, 0."));
    this.host.append(tools, this.readout);
  }

  build() {
    this.resized.disconnect();
    for (const c of this.charts) c.u.destroy();
    this.charts = [];
    this.body.replaceChildren();
    for (const q of this.quantities) {
      const grid = element("div", {class: "grid"});
      this.body.append(element("h4", {}, `${q.name} over time`), grid);
      for (const panel of this.view === "overlay" ? [this.overlay(q)] : this.split(q)) {
        this.charts.push(new Chart(this, q, panel, grid));
      }
    }
    this.zoom(...this.x);
    for (const c of this.charts) this.resized.observe(c.plot);
  }

  // A panel is what one chart shows: a title and lines, each {name, label, t, v,
  // colour, width, dash}. Lines of one name switch off together, over all charts: a
  // flow with its rate and its RTT, a system with all it has, but a total alone.

  split(q) {
    return this.run.systems.filter((s) => s.plots[q.key]).map((s) => {
      const {t, series} = s.plots[q.key];
      const lines = series.map(({label, summary, v}) => {
        const n = this.colours.get(label);
        return {name: summary ? `${q.key} ${label}` : label, label, t, v, summary,
          colour: css(summary ? "--whole" : `--line-${n % COLOURS}`),
          width: summary ? 2 : 1,
          dash: summary ? null : DASHES[Math.floor(n / COLOURS) % DASHES.length]};
      });
      // What stands for the whole comes first in the legend; the chart draws it last.
      return {title: s.name, lines: [...lines.filter((l) => l.summary), ...lines.filter((l) => !l.summary)]};
    });
  }

  overlay(q) {
    const lines = this.run.systems.flatMap((s, i) => {
      const {t, series} = s.plots[q.key] ?? {t: [], series: []};
      const marked = series.filter((x) => x.summary);
      const line = {name: s.name, t, colour: css(`--line-${i % COLOURS}`), dash: DASHES[Math.floor(i / COLOURS) % DASHES.length]};
      if (marked.length) {
        return marked.map(({label, v}) => ({...line, label: marked.length > 1 ? `${s.name}, ${label}` : s.name, v, width: 1.5}));
      }
      return series.map(({label, v}) => ({...line, label: `${s.name}, ${label}`, v, width: 1}));
    });
    return {title: "All systems", lines};
  }

  zoom(from, to) {
    const [first, last] = this.full;
    const span = Math.min(Math.max(to - from, (last - first) / 1e4), last - first);
    from = Math.min(Math.max(from, first), last - span);
    this.x = [from, from + span];
    this.reset.disabled = span >= last - first;
    for (const q of this.quantities) {
      q.most = Math.max(...this.charts.filter((c) => c.q === q).map((c) => c.greatest(this.x)), 0) * 1.06 || 1;
    }
    for (const {u, q} of this.charts) {
      u.batch(() => {
        u.setScale("x", {min: this.x[0], max: this.x[1]});
        u.setScale("y", {min: 0, max: q.most});
      });
    }
  }

  zoomBy(factor, about = (this.x[0] + this.x[1]) / 2) {
    const [from, to] = this.x;
    this.zoom(about - (about - from) * factor, about + (to - about) * factor);
  }

  pan(share) {
    const step = (this.x[1] - this.x[0]) * share;
    this.zoom(this.x[0] + step, this.x[1] + step);
  }

  // point puts the cursor of every chart at time t.
  point(t) {
    for (const {u} of this.charts) u.setCursor({left: u.valToPos(t, "x"), top: u.over.clientHeight / 2});
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    for (const c of this.charts) c.showHidden();
    this.zoom(...this.x);
  }
}

// A Chart is one uPlot with its caption and legend.
class Chart {
  constructor(run, q, panel, grid) {
    this.run = run;
    this.q = q;
    this.lines = panel.lines;
    const last = this.lines.length - 1;
    this.drawn = (i) => last - i + 1; // index in uPlot of line i: the first is drawn last, on top

    this.plot = element("div", {class: "plot", tabindex: 0, role: "group",
      "aria-label": `${q.name} over time, ${panel.title}, in ${q.label}. Arrow keys move the cursor.`,
      onkeydown: (e) => this.key(e)});
    this.plot.chart = this;
    const figure = element("figure", {}, element("figcaption", {}, panel.title), this.plot, this.legend());
    grid.append(figure);

    this.data = this.align();
    const font = "12px system-ui, sans-serif";
    const axis = {stroke: css("--axis"), font, labelFont: font, labelSize: 18, grid: {stroke: css("--grid"), width: 1},
      ticks: {stroke: css("--grid"), width: 1, size: 5}};
    this.u = new uPlot({
      width: this.plot.clientWidth || 300,
      height: this.height(),
      legend: {show: false},
      cursor: {
        y: false,
        sync: {key: `run-${run.host.dataset.run}`, scales: ["x", null]},
        drag: {x: true, y: false, setScale: false},
        points: {size: 6},
        bind: {dblclick: () => () => { run.zoom(...run.full); return null; }},
      },
      scales: {
        x: {time: false, range: () => run.x},
        y: {range: () => [0, q.most]},
      },
      axes: [
        {...axis, label: `time (${run.time.label})`, space: 60, size: 34},
        {...axis, label: `${q.name} (${q.label})`, space: 36, size: 52},
      ],
      series: [{}, ...[...this.lines].reverse().map((l) => ({
        label: l.label, stroke: l.colour, width: l.width, dash: l.dash ?? undefined,
        spanGaps: true, points: {show: false}, show: !run.hidden.has(l.name),
      }))],
      hooks: {
        setSelect: [(u) => {
          if (u.select.width < 4) return;
          const from = u.posToVal(u.select.left, "x"), to = u.posToVal(u.select.left + u.select.width, "x");
          u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
          run.zoom(from, to);
        }],
        setCursor: [(u) => this.showValues(u.cursor.idx)],
      },
    }, this.data, this.plot);
  }

  height() {
    return window.innerWidth < 600 ? 200 : 230;
  }

  resize() {
    const width = this.plot.clientWidth;
    if (width && width !== this.u.width) this.u.setSize({width, height: this.height()});
  }

  // align gives uPlot its form: common times, then the values of each line.
  align() {
    const scaled = (a, size) => a.map((x) => x === null ? null : x / size);
    const tables = [], known = new Map(); // lines of one system share their times
    for (const l of [...this.lines].reverse()) {
      if (!known.has(l.t)) {
        known.set(l.t, tables.length);
        tables.push([scaled(l.t, this.run.time.size)]);
      }
      tables[known.get(l.t)].push(scaled(l.v, this.q.size));
    }
    if (tables.length === 0) return [[]];
    return tables.length === 1 ? tables[0] : uPlot.join(tables);
  }

  // greatest value of the lines shown within times x.
  greatest([from, to]) {
    const t = this.data[0];
    let most = 0;
    this.lines.forEach((l, i) => {
      if (this.run.hidden.has(l.name)) return;
      const v = this.data[this.drawn(i)];
      for (let k = 0; k < t.length; k++) if (t[k] >= from && t[k] <= to && v[k] > most) most = v[k];
    });
    return most;
  }

  legend() {
    this.buttons = this.lines.map((l) => {
      const value = element("span", {class: "value"});
      const button = element("button", {type: "button", "aria-pressed": String(!this.run.hidden.has(l.name)), onclick: () => this.run.toggle(l.name)},
        swatch(l), element("span", {}, l.label), value);
      return {button, value};
    });
    const items = this.buttons.map(({button}) => element("li", {}, button));
    const list = (items) => element("ul", {class: "legend", "aria-label": "Series; a button switches one off or on"}, ...items);
    if (items.length <= LEGEND) return list(items);
    const open = this.lines.filter((l) => l.summary).length;
    return element("div", {}, open ? list(items.slice(0, open)) : null,
      element("details", {}, element("summary", {}, `${items.length - open} series`), list(items.slice(open))));
  }

  showHidden() {
    this.lines.forEach((l, i) => {
      const show = !this.run.hidden.has(l.name);
      this.buttons[i].button.setAttribute("aria-pressed", String(show));
      if (this.u.series[this.drawn(i)].show !== show) this.u.setSeries(this.drawn(i), {show});
    });
  }

  // valueAt is line i's last value at or before index idx.
  valueAt(i, idx) {
    const v = this.data[this.drawn(i)];
    while (idx >= 0 && v[idx] == null) idx--;
    return idx >= 0 ? v[idx] : null;
  }

  showValues(idx) {
    this.buttons.forEach(({value}, i) => {
      const v = idx == null ? null : this.valueAt(i, idx);
      value.textContent = v === null ? "" : text(v);
    });
  }

  key(e) {
    const {run, u} = this;
    if (e.target !== this.plot || e.ctrlKey || e.metaKey || e.altKey) return;
    const t = this.data[0];
    const at = u.cursor.idx ?? u.valToIdx((run.x[0] + run.x[1]) / 2);
    const go = (idx) => {
      idx = Math.min(Math.max(idx, 0), t.length - 1);
      if (t[idx] < run.x[0]) run.pan((t[idx] - run.x[0]) / (run.x[1] - run.x[0]) - 0.1);
      if (t[idx] > run.x[1]) run.pan((t[idx] - run.x[1]) / (run.x[1] - run.x[0]) + 0.1);
      run.point(t[idx]);
      const spoken = this.lines.map((l, i) => [l, this.valueAt(i, idx)]).filter(([l, v]) => v !== null && !run.hidden.has(l.name)).slice(0, 4);
      run.readout.textContent = `At ${text(t[idx])} ${run.time.label}: ` +
        spoken.map(([l, v]) => `${l.label} ${text(v)} ${this.q.label}`).join(", ");
    };
    const step = e.shiftKey ? 20 : 1;
    switch (e.key) {
      case "ArrowLeft": go(at - step); break;
      case "ArrowRight": go(at + step); break;
      case "Home": go(u.valToIdx(run.x[0])); break;
      case "End": go(u.valToIdx(run.x[1])); break;
      case "+": case "=": run.zoomBy(0.5, t[at]); break;
      case "-": run.zoomBy(2, t[at]); break;
      case "0": case "Escape": run.zoom(...run.full); break;
      default: return;
    }
    e.preventDefault();
  }
}

const runs = [...document.querySelectorAll(".plots")].map((host) => new Run(data.runs[host.dataset.run], host));

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const r of runs) r.build();
});
})();
