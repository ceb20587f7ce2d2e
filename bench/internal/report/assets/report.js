// Draws the plots of the page from the JSON in #report-data, and adds what acts:
// the choice of colours, the comparison of rows. Tables, networks and text are
// there without it.
(() => {
"use strict";

const data = JSON.parse(document.getElementById("report-data").textContent);

const COLOURS = 8;
const DASHES = [null, [8, 4], [3, 3]]; // for the second and third round of colours
const LEGEND = 8; // a longer one folds, unless it names systems
const SYSTEMS = 24;
const SPLIT = 3; // more systems than this are laid over one another at first

// Units: the largest prefix in which the greatest value is at least 1.

const PREFIXES = {
  bps: [[1e12, "Tbps"], [1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  share: [[1e-2, "%"]],
};

function scaleFor(unit, greatest) {
  const steps = PREFIXES[unit] ?? [[1, unit]];
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

// short is a number as axes have it.
function short(x) {
  return String(Number(x.toPrecision(6)));
}

function inUnit(x, label) {
  return label === "" ? text(x) : `${text(x)} ${label}`;
}

function bytes(n) {
  let unit = "B";
  for (const u of ["KB", "MB", "GB", "TB"]) {
    if (n < 1000) break;
    n /= 1000;
    unit = u;
  }
  return `${Number(n.toPrecision(4))} ${unit}`;
}

function element(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(e, attributes, children) {
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

// look is the n-th colour and dash.
function look(n) {
  return {colour: css(`--line-${n % COLOURS}`), dash: DASHES[Math.floor(n / COLOURS) % DASHES.length]};
}

function swatch(line) {
  return svg("svg", {width: 20, height: 10, "aria-hidden": "true"},
    svg("line", {x1: 0, x2: 20, y1: 5, y2: 5, stroke: line.colour, "stroke-width": line.width + 1,
      "stroke-dasharray": (line.dash ?? []).join(" ")}));
}

// radios is a choice of one of some [value, words].
function radios(name, legend, choices, chosen, act) {
  return element("fieldset", {class: "choice"}, element("legend", {class: "unseen"}, legend),
    ...choices.map(([value, words]) => element("label", {},
      element("input", {type: "radio", name, value, checked: value === chosen, onchange: () => act(value)}), words)));
}

function checkbox(words, checked, act) {
  return element("label", {class: "field"}, element("input", {type: "checkbox", checked, onchange: (e) => act(e.target.checked)}), words);
}

// A Group is charts that share a horizontal axis and the cursor, with what acts on
// them all. Charts of one quantity share the vertical axis too. A subclass says
// what the panels are.
class Group {
  constructor(host, id, axis) {
    this.host = host;
    this.id = id;
    this.x = {...axis, log: false}; // {name, size, label, full: [from, to], least: least positive}
    this.range = [...axis.full];
    this.hidden = new Set(); // what the legend switched off, by name
    this.charts = [];
    this.body = element("div");
    this.resized = new ResizeObserver((entries) => {
      for (const {target} of entries) target.chart?.resize();
    });
  }

  tools(what, ...more) {
    const button = (words, label, act) => element("button", {type: "button", "aria-label": label, title: label, onclick: act}, words);
    this.reset = button("Whole", `Show the whole ${this.x.name} axis`, () => this.zoom(...this.full()));
    this.readout = element("div", {class: "readout hint", role: "status"});
    this.host.append(
      element("div", {class: "tools"}, ...more,
        element("div", {class: "buttons", role: "group", "aria-label": `The ${this.x.name} axis of ${what}`},
          button("−", "Zoom out", () => this.zoomBy(2)), button("+", "Zoom in", () => this.zoomBy(0.5)),
          button("←", "Move left", () => this.pan(-0.5)), button("→", "Move right", () => this.pan(0.5)), this.reset),
        this.hint ? element("span", {class: "hint"}, this.hint) : null),
      this.readout, this.body);
  }

  full() {
    return this.x.log ? [this.x.least, this.x.full[1]] : this.x.full;
  }

  build() {
    this.resized.disconnect();
    for (const c of this.charts) c.u.destroy();
    this.charts = [];
    this.body.replaceChildren();
    this.panels();
    this.zoom(...this.range);
    for (const c of this.charts) this.resized.observe(c.plot);
  }

  add(quantity, panel, grid) {
    this.charts.push(new Chart(this, quantity, panel, grid));
  }

  // Zooming works on the axis as it is drawn: on logarithms, if it has them.
  on(v) { return this.x.log ? Math.log(Math.max(v, this.x.least)) : v; }
  off(v) { return this.x.log ? Math.exp(v) : v; }

  zoom(from, to) {
    const [first, last] = this.full().map((v) => this.on(v));
    from = this.on(from);
    to = this.on(to);
    const span = Math.min(Math.max(to - from, (last - first) / 1e4), last - first);
    from = Math.min(Math.max(from, first), last - span);
    this.range = span >= last - first ? [...this.full()] : [this.off(from), this.off(from + span)];
    this.reset.disabled = span >= last - first;
    const most = new Map();
    for (const c of this.charts) {
      if (!c.q.fixed) most.set(c.q, Math.max(most.get(c.q) ?? 0, c.greatest(this.range)));
    }
    for (const c of this.charts) {
      c.y = c.q.fixed ?? [0, most.get(c.q) * 1.06 || 1];
      c.u.batch(() => {
        c.u.setScale("x", {min: this.range[0], max: this.range[1]});
        c.u.setScale("y", {min: c.y[0], max: c.y[1]});
      });
    }
  }

  zoomBy(factor, about) {
    const [from, to] = this.range.map((v) => this.on(v));
    const mid = about === undefined ? (from + to) / 2 : this.on(about);
    this.zoom(this.off(mid - (mid - from) * factor), this.off(mid + (to - mid) * factor));
  }

  pan(share) {
    const [from, to] = this.range.map((v) => this.on(v));
    const step = (to - from) * share;
    this.zoom(this.off(from + step), this.off(to + step));
  }

  // point puts the cursor of every chart at x.
  point(x) {
    for (const {u} of this.charts) u.setCursor({left: u.valToPos(x, "x"), top: u.over.clientHeight / 2});
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    for (const c of this.charts) c.showHidden();
    this.zoom(...this.range);
  }
}

// Over is the plots over time of one scenario.
//
// A panel is what one chart shows: a title and lines, each {name, label, x, v, max: the top
// of its band, if it has one, colour, width, dash}. Lines of one name switch off together, over all charts: a
// flow with its rate and its RTT, a system with all it has, but a total alone.
class Over extends Group {
  constructor(run, host) {
    let first = Infinity, last = -Infinity;
    for (const {plots} of run.systems) {
      for (const {t} of Object.values(plots)) {
        if (t.length) { first = Math.min(first, t[0]); last = Math.max(last, t[t.length - 1]); }
      }
    }
    if (first > last) { first = 0; last = 1e-3; }
    if (first === last) { first = Math.max(0, first * 0.5); last = last * 1.5 || 1e-3; }
    const time = scaleFor("s", last);
    super(host, `over-${host.dataset.run}`, {name: "time", ...time, full: [first / time.size, last / time.size]});
    this.run = run;
    this.hint = "Drag across a plot to zoom, double-click for the whole. With a plot in focus: arrow keys, + and −, 0.";
    this.view = run.systems.length > SPLIT ? "overlay" : "split";
    this.quantities = run.quantities.map((q) => {
      const plots = run.systems.map((s) => s.plots[q.key]).filter(Boolean);
      return {...q, ...scaleFor(q.unit, greatestOf(plots.flatMap((p) => p.series.map((s) => s.max ?? s.v)))),
        banded: plots.some((p) => p.series.some((s) => s.max))};
    });
    this.colours = new Map(); // of a label, the same in all plots of the run
    for (const q of run.quantities) {
      for (const s of run.systems) {
        for (const {label, summary} of s.plots[q.key]?.series ?? []) {
          if (!summary && !this.colours.has(label)) this.colours.set(label, this.colours.size);
        }
      }
    }
    this.tools(`the plots over time of ${run.scenario}`, run.systems.length > 1 ? radios(`view-${host.dataset.run}`, "Arrangement of the plots",
      [["split", "Side by side"], ["overlay", "Overlaid"]], this.view, (view) => {
        this.view = view;
        this.hidden.clear();
        this.build();
      }) : null);
    this.build();
  }

  panels() {
    const more = element("details", {open: this.open, ontoggle: () => {
      this.open = more.open;
      if (more.open && !more.built) {
        more.built = true;
        this.quantity(this.quantities.filter((q) => q.more), more);
        this.zoom(...this.range);
        for (const c of this.charts) this.resized.observe(c.plot);
      }
    }}, element("summary", {}, "More over time: " + this.quantities.filter((q) => q.more).map((q) => q.name.toLowerCase()).join(", ")));
    this.quantity(this.quantities.filter((q) => !q.more), this.body);
    if (this.quantities.some((q) => q.more)) this.body.append(more);
  }

  quantity(quantities, where) {
    for (const q of quantities) {
      const grid = element("div", {class: "grid"});
      where.append(element("h4", {}, `${q.name} over time`),
        q.banded ? element("p", {class: "hint"}, "Lines are the mean of each step, and the band above a line reaches to the most within it.") : "", grid);
      for (const panel of this.view === "overlay" ? [this.overlay(q)] : this.split(q)) this.add(q, panel, grid);
    }
  }

  split(q) {
    return this.run.systems.filter((s) => s.plots[q.key]).map((s) => {
      const {t, series} = s.plots[q.key];
      const lines = series.map(({label, summary, v, max}) => ({
        ...(summary ? {colour: css("--whole"), dash: null} : look(this.colours.get(label))),
        name: summary ? `${q.key} ${label}` : label, label, x: t, v, max, summary, width: summary ? 1.5 : 1,
      }));
      // What stands for the whole comes first in the legend; the chart draws it last.
      return {title: s.name, lines: [...lines.filter((l) => l.summary), ...lines.filter((l) => !l.summary)]};
    });
  }

  overlay(q) {
    const lines = this.run.systems.flatMap((s, i) => {
      const {t, series} = s.plots[q.key] ?? {t: [], series: []};
      const marked = series.filter((x) => x.summary);
      const line = {name: s.name, x: t, ...look(i)};
      if (marked.length) {
        return marked.map(({label, v, max}) => ({...line, label: marked.length > 1 ? `${s.name}, ${label}` : s.name, v, max, width: 1.5}));
      }
      return series.map(({label, v, max}) => ({...line, label: `${s.name}, ${label}`, v, max, width: 1}));
    });
    return {title: "All systems", lines, overlaid: true};
  }
}

// Cumulative is one distribution of a scenario, a line a system.
class Cumulative extends Group {
  constructor(run, q, host, id) {
    const lines = run.systems.flatMap((s) => s.cdfs[q.key] ?? []);
    const {size, label} = scaleFor(q.unit, greatestOf(lines.map((l) => l.v)));
    let first = Infinity, last = -Infinity, least = Infinity;
    for (const {v} of lines) {
      for (const x of v) {
        first = Math.min(first, x / size);
        last = Math.max(last, x / size);
        if (x > 0) least = Math.min(least, x / size);
      }
    }
    if (first > last) { first = 0; last = 1; }
    if (first > 0 && first < last / 3) first = 0; // from 0, unless that pushes all to one side
    if (first === last) { first = Math.min(0, first); last = last * 1.1 || 1; }
    if (!(least < last)) least = last / 10;
    last += (last - first) * 0.02; // a line that rises at the end is seen
    super(host, id, {name: q.name, size, label, full: [first, last], least});
    this.run = run;
    this.q = q;
    this.tail = false;
    this.parts = run.systems.some((s) => (s.cdfs[q.key] ?? []).some((l) => !l.summary));
    this.whole = run.systems.some((s) => (s.cdfs[q.key] ?? []).some((l) => l.summary));
    this.every = !this.whole;
    // Where most samples are in a small part of the range, logarithms show them.
    const median = Math.max(...lines.map(({v, share}) => v[share.findIndex((p) => p >= 0.5)] ?? 0)) / size;
    if (median > 0 && median * 20 < last) {
      this.x.log = true;
      this.range = [...this.full()];
    }
    this.tools(`the distribution of ${q.name}`,
      checkbox(`Logarithmic ${q.name}`, this.x.log, (on) => { this.x.log = on; this.range = [...this.full()]; this.build(); }),
      checkbox("Tail: share above", false, (on) => { this.tail = on; this.build(); }),
      this.parts && this.whole ? checkbox("Each part of the flows", false, (on) => { this.every = on; this.build(); }) : null);
    this.build();
  }

  panels() {
    let end = 1; // of the tail: the least share above any value
    const lines = this.run.systems.flatMap((s, i) => {
      const some = (s.cdfs[this.q.key] ?? []).filter((l) => l.summary || this.every);
      return some.map(({label, summary, v, share}, k) => {
        for (const p of share) if (p < 1) end = Math.min(end, 1 - p);
        return {name: s.name, label: some.length > 1 ? `${s.name}, ${label}` : s.name, ...look(i), width: summary ? 2 : 1,
          dash: k === 0 ? look(i).dash : DASHES[1 + (k - 1) % 2],
          x: v, v: this.tail ? share.map((p) => p < 1 ? 100 * (1 - p) : null) : share.map((p) => 100 * p)};
      });
    });
    const q = {name: this.tail ? "Share above" : "Share at or below", size: 1, label: "%", log: this.tail, start: this.tail ? 100 : 0,
      fixed: this.tail ? [Math.max(100 * end, 1e-6) * 0.8, 100] : [0, 100]};
    const grid = element("div", {class: "single"});
    this.body.append(grid);
    this.add(q, {title: `${this.q.name}: cumulative distribution`, lines, tall: true, overlaid: true}, grid);
  }
}

// A Chart is one uPlot with its caption and legend.
class Chart {
  constructor(group, q, panel, grid) {
    this.group = group;
    this.q = q;
    this.y = q.fixed ?? [0, 1];
    this.lines = panel.lines;
    this.tall = panel.tall;
    this.overlaid = panel.overlaid;
    // Where lines, and the tops of their bands, are in uPlot: the first line is drawn last, on
    // top, and a band before its line.
    this.order = [...this.lines].reverse();
    let n = 0;
    for (const l of this.order) {
      l.top = l.max ? ++n : 0;
      l.at = ++n;
    }

    const against = group.x.name === "time" ? `${q.name} over time` : `${q.name}, by ${group.x.name}`;
    this.plot = element("div", {class: "plot", tabindex: 0, role: "application",
      "aria-roledescription": "plot",
      "aria-label": `${against}, ${panel.title}${q.label === "" ? "" : `, in ${q.label}`}. Left and right arrow keys move the cursor and read values; plus, minus and 0 zoom. The figures are in the table after the plots.`,
      onkeydown: (e) => this.key(e)});
    this.plot.chart = this;
    grid.append(element("figure", {}, element("figcaption", {}, panel.title), this.plot, this.legend()));

    this.data = this.align();
    const font = "12px system-ui, sans-serif";
    const axis = {stroke: css("--axis"), font, labelFont: font, labelSize: 18, grid: {stroke: css("--grid"), width: 1},
      ticks: {stroke: css("--grid"), width: 1, size: 5}};
    const named = (name, unit) => unit === "" ? name : `${name} (${unit})`;
    const logged = {values: (u, splits) => splits.map((v) => v == null ? null : short(v))};
    // A line of which few points are seen needs them marked: one alone is no line.
    const sparse = (v) => v.reduce((n, x) => n + (x != null), 0) < 3;
    this.u = new uPlot({
      width: this.plot.clientWidth || 300,
      height: this.height(),
      legend: {show: false},
      cursor: {
        y: false,
        sync: {key: group.id, scales: ["x", null]},
        drag: {x: true, y: false, setScale: false},
        points: {size: 6},
        bind: {dblclick: () => () => { group.zoom(...group.full()); return null; }},
      },
      scales: {
        x: {time: false, distr: group.x.log ? 3 : 1, range: () => group.range},
        y: {distr: q.log ? 3 : 1, range: () => this.y},
      },
      axes: [
        {...axis, label: named(group.x.name, group.x.label), space: 60, size: 34, ...(group.x.log ? logged : {})},
        {...axis, label: named(q.name, q.label), space: q.log ? 18 : 36, size: 58, ...(q.log ? logged : {})},
      ],
      series: [{}, ...this.order.flatMap((l) => {
        const common = {spanGaps: true, points: {show: sparse(l.v), size: 6, fill: l.colour}, show: !group.hidden.has(l.name)};
        const line = {...common, label: l.label, stroke: l.colour, width: l.width, dash: l.dash ?? undefined};
        return l.max ? [{...common, label: `${l.label}, most`, stroke: l.colour + "80", width: 0.5}, line] : [line];
      })],
      bands: this.order.filter((l) => l.max).map((l) => ({series: [l.top, l.at], fill: l.colour + "33"})),
      hooks: {
        setSelect: [(u) => {
          if (u.select.width < 4) return;
          const from = u.posToVal(u.select.left, "x"), to = u.posToVal(u.select.left + u.select.width, "x");
          u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
          group.zoom(from, to);
        }],
        setCursor: [(u) => this.showValues(u.cursor.idx)],
      },
    }, this.data, this.plot);
  }

  height() {
    return (window.innerWidth < 600 ? 200 : 230) + (this.tall ? 50 : 0);
  }

  resize() {
    const width = this.plot.clientWidth;
    if (width && width !== this.u.width) this.u.setSize({width, height: this.height()});
  }

  // align gives uPlot its form: common places on the horizontal axis, then the
  // values of each line.
  align() {
    const {x} = this.group;
    const scaled = (a, size) => a.map((v) => v === null ? null : v / size);
    const tables = [], known = new Map(); // lines of one system share their times
    for (const l of this.order) {
      let xs = l.x, vs = l.v;
      if (this.tall) [xs, vs] = rising(xs, vs, x.log, (x.full[1] - x.full[0]) * x.size * 1e-6, this.q.start);
      if (!known.has(xs)) {
        known.set(xs, tables.length);
        tables.push([scaled(xs, x.size)]);
      }
      if (l.max) tables[known.get(xs)].push(scaled(l.max, this.q.size));
      tables[known.get(xs)].push(scaled(vs, this.q.size));
    }
    if (tables.length === 0) return [[]];
    return tables.length === 1 ? tables[0] : uPlot.join(tables);
  }

  // greatest value of the lines shown within a range.
  greatest([from, to]) {
    const t = this.data[0];
    let most = 0;
    this.lines.forEach((l) => {
      if (this.group.hidden.has(l.name)) return;
      const v = this.data[l.top || l.at];
      for (let k = 0; k < t.length; k++) if (t[k] >= from && t[k] <= to && v[k] > most) most = v[k];
    });
    return most;
  }

  legend() {
    this.buttons = this.lines.map((l) => {
      const value = element("span", {class: "value"});
      const button = element("button", {type: "button", "aria-pressed": String(!this.group.hidden.has(l.name)), onclick: () => this.group.toggle(l.name)},
        swatch(l), element("span", {}, l.label), value);
      return {button, value};
    });
    const items = this.buttons.map(({button}) => element("li", {}, button));
    const list = (items) => element("ul", {class: "legend", "aria-label": "Series; a button switches one off or on"}, ...items);
    if (items.length <= (this.overlaid ? SYSTEMS : LEGEND)) return list(items);
    const open = this.lines.filter((l) => l.summary).length;
    return element("div", {}, open ? list(items.slice(0, open)) : null,
      element("details", {}, element("summary", {}, `${items.length - open} series`), list(items.slice(open))));
  }

  showHidden() {
    this.lines.forEach((l, i) => {
      const show = !this.group.hidden.has(l.name);
      this.buttons[i].button.setAttribute("aria-pressed", String(show));
      for (const at of l.top ? [l.top, l.at] : [l.at]) if (this.u.series[at].show !== show) this.u.setSeries(at, {show});
    });
  }

  // valueAt is a line's last value at or before index idx, and the top of its band there, as
  // text by a function; null if there is none.
  valueAt(l, idx, words) {
    const v = this.data[l.at];
    while (idx >= 0 && v[idx] == null) idx--;
    if (!(idx >= 0)) return null;
    const most = l.top ? this.data[l.top][idx] : null;
    return words(v[idx]) + (most == null ? "" : `, most ${words(most)}`);
  }

  showValues(idx) {
    this.buttons.forEach(({value}, i) => {
      value.textContent = idx == null ? "" : this.valueAt(this.lines[i], idx, text) ?? "";
    });
  }

  key(e) {
    const {group, u} = this;
    if (e.target !== this.plot || e.ctrlKey || e.metaKey || e.altKey) return;
    const t = this.data[0];
    if (t.length === 0) return;
    const [from, to] = group.range;
    const at = u.cursor.idx ?? u.valToIdx((from + to) / 2);
    const go = (idx) => {
      idx = Math.min(Math.max(idx, 0), t.length - 1);
      const place = (group.on(t[idx]) - group.on(from)) / (group.on(to) - group.on(from));
      if (place < 0) group.pan(place - 0.1);
      if (place > 1) group.pan(place - 1 + 0.1);
      group.point(t[idx]);
      const spoken = this.lines.map((l) => [l, this.valueAt(l, idx, (v) => inUnit(v, this.q.label))]).filter(([l, v]) => v !== null && !group.hidden.has(l.name)).slice(0, 4);
      group.readout.textContent = `At ${group.x.name === "time" ? "" : `${group.x.name} `}${inUnit(t[idx], group.x.label)}: ` +
        spoken.map(([l, v]) => `${l.label} ${v}`).join(", ");
    };
    const step = e.shiftKey ? 20 : 1;
    switch (e.key) {
      case "ArrowLeft": go(at - step); break;
      case "ArrowRight": go(at + step); break;
      case "Home": go(u.valToIdx(from)); break;
      case "End": go(u.valToIdx(to)); break;
      case "+": case "=": group.zoomBy(0.5, t[at]); this.say(); break;
      case "-": group.zoomBy(2, t[at]); this.say(); break;
      case "0": case "Escape": group.zoom(...group.full()); this.say(); break;
      default: return;
    }
    e.preventDefault();
  }

  // say tells what of the axis is shown.
  say() {
    const {group} = this;
    group.readout.textContent = `Shown: ${group.x.name} from ${text(group.range[0])} to ${inUnit(group.range[1], group.x.label)}`;
  }
}

// rising makes a line of a distribution. Where several points have one value it
// has two, the first and the last, a hair apart, as a horizontal axis has each
// place once; so it has where it begins above start. Logarithms have only what is
// above 0.
function rising(xs, vs, log, hair, start) {
  const x = [], v = [];
  const put = (at, share) => {
    if (log && !(at > 0) || x.length && at <= x[x.length - 1]) return;
    x.push(at);
    v.push(share);
  };
  for (let i = 0, j; i < xs.length; i = j) {
    for (j = i + 1; j < xs.length && xs[j] === xs[i]; j++);
    if (i === 0 && vs[0] !== start) put(xs[0] - hair, start);
    else if (j > i + 1) put(xs[i] - hair, vs[i]);
    put(xs[i], vs[j - 1]);
  }
  return [x, v];
}

// A Slowdown draws, for each bin of flow sizes and each system, the median, the
// 95th and the 99th percentile. Its figures are in the table below it.
class Slowdown {
  constructor(run, host) {
    this.host = host;
    this.systems = run.systems.map((s, i) => ({name: s.name, bins: s.slowdown, n: i})).filter((s) => s.bins.length);
    this.name = run.scenario;
    const bins = new Map();
    for (const s of this.systems) {
      for (const b of s.bins) bins.set(`${b.from} ${b.to}`, b);
    }
    this.bins = [...bins.values()].sort((a, b) => a.from - b.from || (a.to ?? Infinity) - (b.to ?? Infinity));
    this.drawing = element("div", {class: "scroll"});
    this.drawing.chart = this;
    this.build();
    new ResizeObserver(() => this.resize()).observe(this.drawing);
  }

  build() {
    const legend = element("ul", {class: "legend", "aria-label": "Colours of the systems"}, ...this.systems.map((s) => element("li", {class: "field"},
      swatch({...look(s.n), width: 2}), s.name)));
    const marks = element("p", {class: "hint"}, "● median, ▬ 95th, ▲ 99th percentile");
    this.host.replaceChildren(element("figure", {}, this.drawing, legend, marks));
    this.draw();
  }

  resize() {
    if (this.drawing.clientWidth !== this.width) this.draw();
  }

  draw() {
    this.width = this.drawing.clientWidth;
    const left = 46, right = 8, top = 8, high = 220, foot = 30;
    const room = (this.width - left - right) / this.bins.length - 8;
    const each = Math.max(12, Math.min(28, room / this.systems.length));
    const wide = Math.max(this.width, left + right + this.bins.length * Math.max(76, each * this.systems.length + 8));
    const values = this.systems.flatMap((s) => s.bins.flatMap((b) => b.p)).filter((v) => v > 0);
    let low = Math.min(1, ...values), most = Math.max(2, ...values);
    const scale = (v) => top + high * (1 - Math.log(v / low) / Math.log(most / low));
    most *= 1.1;
    const out = [];
    const ticks = [];
    for (let decade = 10 ** Math.floor(Math.log10(low)); decade <= most; decade *= 10) {
      for (const m of [1, 2, 5]) if (m * decade >= low * 0.999 && m * decade <= most) ticks.push(m * decade);
    }
    for (const v of ticks.length > 9 ? ticks.filter((v) => Number.isInteger(Math.log10(v))) : ticks) {
      out.push(svg("line", {class: "rule", x1: left, x2: wide - right, y1: scale(v), y2: scale(v)}),
        svg("text", {x: left - 6, y: scale(v) + 4, "text-anchor": "end"}, short(v)));
    }
    const span = (wide - left - right) / this.bins.length;
    this.bins.forEach((bin, k) => {
      const middle = left + span * (k + 0.5);
      out.push(svg("text", {x: middle, y: top + high + 20, "text-anchor": "middle"},
        bin.to === null ? `above ${bytes(bin.from)}` : `up to ${bytes(bin.to)}`));
      this.systems.forEach((s, i) => {
        const b = s.bins.find((b) => b.from === bin.from && b.to === bin.to);
        if (!b) return;
        const x = middle + (i - (this.systems.length - 1) / 2) * each;
        const {colour, dash} = look(s.n);
        const [p50, p95, p99] = b.p.map((v) => v > 0 ? scale(v) : null);
        const g = svg("g", {stroke: colour, fill: colour}, svg("title", {},
          `${s.name}: median ${b.p[0] ?? "none"}, 95th ${b.p[1] ?? "none"}, 99th ${b.p[2] ?? "none"}, ${b.flows} flows`));
        if (p50 !== null && p99 !== null) g.append(svg("line", {x1: x, x2: x, y1: p50, y2: p99, "stroke-width": 2, "stroke-dasharray": (dash ?? []).join(" ")}));
        if (p50 !== null) g.append(svg("circle", {cx: x, cy: p50, r: 4}));
        if (p95 !== null) g.append(svg("line", {x1: x - 5, x2: x + 5, y1: p95, y2: p95, "stroke-width": 3}));
        if (p99 !== null) g.append(svg("path", {d: `M${x - 5} ${p99 + 4}L${x + 5} ${p99 + 4}L${x} ${p99 - 5}Z`}));
        out.push(g);
      });
    });
    const worst = Math.max(...values, 0);
    this.drawing.replaceChildren(svg("svg", {class: "slow", width: wide, height: top + high + foot, role: "img",
      "aria-label": `${this.name}: slowdown by flow size of ${this.systems.length} systems, up to ${text(worst)}. The figures are in the table that follows.`}, ...out));
    this.drawing.toggleAttribute("tabindex", false);
    if (wide > this.width + 1) fill(this.drawing, {tabindex: 0, role: "region", "aria-label": "Slowdown by flow size, drawn"}, []);
  }
}

// compare writes under each figure of a table how much it differs from that of
// the system that the reader chooses, or of the same system in another input. Parts
// differ from the part of that name.
function compare(host) {
  const table = document.querySelector(`table.results[data-run="${host.dataset.run}"]`);
  const systems = []; // {row, parts: rows by name}
  for (const row of table.tBodies[0].rows) {
    if (row.dataset.part === undefined) systems.push({row, parts: new Map()});
    else systems[systems.length - 1].parts.set(row.dataset.part, row);
  }
  if (systems.length < 2) return;
  const cells = (row) => [...row.querySelectorAll("td")];
  const mark = (row, than) => {
    if (!than || row === than) return;
    const base = cells(than);
    cells(row).forEach((cell, k) => {
      const a = Number(base[k].dataset.v), b = Number(cell.dataset.v);
      if (!Number.isFinite(a) || !Number.isFinite(b)) return;
      const change = a === b ? "=" : a === 0 ? null : percentOf((b - a) / Math.abs(a));
      if (change !== null) cell.append(element("span", {class: "delta"}, change));
    });
  };
  const show = (chosen) => {
    for (const d of table.querySelectorAll(".delta")) d.remove();
    for (const s of systems) {
      const base = bases.get(chosen)?.(s);
      if (!base) continue;
      mark(s.row, base.row);
      for (const [name, row] of s.parts) mark(row, base.parts.get(name));
    }
  };
  const bases = new Map(); // from a choice: the system to differ from, of a system
  const pick = element("select", {onchange: (e) => show(e.target.value)}, element("option", {value: ""}, "none"));
  const add = (words, base) => {
    const value = String(bases.size + 1);
    bases.set(value, base);
    pick.append(element("option", {value}, words));
    return value;
  };
  const inputs = [...new Set(systems.map((s) => s.row.dataset.input))].filter((name) => name !== "");
  const paired = (input, s) => systems.find((o) => o.row.dataset.input === input && o.row.dataset.of === s.row.dataset.of);
  let first = "";
  for (const input of inputs.length > 1 ? inputs : []) {
    if (!systems.some((s) => s.row.dataset.input !== input && paired(input, s))) continue;
    const value = add(`the same system in ${input}`, (s) => paired(input, s));
    first ||= value;
  }
  for (const s of systems) add(s.row.dataset.name, () => s);
  host.append(element("label", {class: "field"}, "Difference from", pick));
  // Results of several calls were put on one page to be compared.
  if (first) { pick.value = first; show(first); }
}

function percentOf(share) {
  const p = Math.abs(share) * 100;
  return `${share < 0 ? "−" : "+"}${p >= 100 ? p.toFixed(0) : p.toFixed(1)} %`;
}

const built = [];

function rebuild() {
  for (const b of built) b.build();
}

// theme is the reader's choice of colours. It is kept where the browser lets a
// page of this kind keep something.
function theme(host) {
  const root = document.documentElement;
  const key = "sluice-report-theme";
  let kept = "";
  try { kept = localStorage.getItem(key) ?? ""; } catch { /* then it is not kept */ }
  const use = (value) => {
    if (value === "") delete root.dataset.theme;
    else root.dataset.theme = value;
  };
  if (kept !== "light" && kept !== "dark") kept = "";
  use(kept);
  const choice = element("select", {onchange: (e) => {
    use(e.target.value);
    try { localStorage.setItem(key, e.target.value); } catch { /* see above */ }
    rebuild();
  }}, ...[["", "as the system"], ["light", "light"], ["dark", "dark"]].map(([value, words]) => element("option", {value}, words)));
  choice.value = kept;
  host.append(element("label", {class: "field"}, "Colours", choice));
}

theme(document.getElementById("theme"));
for (const host of document.querySelectorAll(".compare")) compare(host);
for (const host of document.querySelectorAll(".plots")) built.push(new Over(data.runs[host.dataset.run], host));
for (const host of document.querySelectorAll(".cdfs")) {
  const run = data.runs[host.dataset.run];
  host.classList.add("grid");
  for (const q of run.cdfs) {
    const one = element("div", {class: "cdf"});
    host.append(one);
    built.push(new Cumulative(run, q, one, `cdf-${host.dataset.run}-${q.key}`));
  }
}
for (const host of document.querySelectorAll(".slowdown")) {
  const run = data.runs[host.dataset.run];
  if (run.systems.some((s) => s.slowdown.length)) built.push(new Slowdown(run, host));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
})();
