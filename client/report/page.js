'use strict';
// The code that all report pages share. Everything that comes from the data is put into the page as text.
const $data = JSON.parse(document.getElementById('data').textContent);
const $app = document.getElementById('app');
const $charts = [];
window.addEventListener('error', (event) => {
  document.body.dataset.errors = (document.body.dataset.errors || '') + event.message + '\n';
  el($app, 'p', 'error', 'This page has a fault: ' + event.message);
});

function el(parent, tag, css, text) {
  const node = document.createElement(tag);
  if (css) node.className = css;
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}
function card(parent, title, note) {
  const node = el(parent, 'section', 'card');
  if (title) el(node, 'h2', '', title);
  if (note) el(node, 'p', 'note', note);
  return node;
}
function tile(parent, key, value, detail) {
  const node = el(parent, 'div', 'tile');
  el(node, 'div', 'k', key);
  el(node, 'div', 'v', value);
  if (detail) el(node, 'div', 'd', detail);
}
// How the best of a sweep stands to the default config, in the words of every other view.
function overDefault(tiles, result, more) {
  if (!result.default_verdict) return;
  const standing = enumText(result.default_standing, 'DEFAULT_STANDING_');
  const shown = {same: 'none', tie: 'a tie', undecided: 'undecided'}[standing] ||
      result.speedup_over_default.toFixed(2) + '×';
  const interval = standing === 'faster' && result.speedup_high ?
      ', ' + result.speedup_low.toFixed(2) + ' to ' + result.speedup_high.toFixed(2) : '';
  const verdict = standing === 'same' ? 'it is the best' : result.default_verdict;
  tile(tiles, 'Over the default', shown,
       'default ' + latency(result.default_trial.measurement.latency_ns_median) + ': ' + verdict +
       interval + (more ? '; ' + more : ''));
}
function notes(parent, list) {
  if (!list || !list.length) return;
  const ul = el(parent, 'ul', 'notes');
  for (const note of list) el(ul, 'li', '', note);
}
function select(parent, label, options, value, onchange) {
  const wrap = el(parent, 'label', '', label + ' ');
  const node = el(wrap, 'select');
  for (const [key, text] of options) {
    const option = el(node, 'option', '', text);
    option.value = key;
  }
  node.value = value;
  node.addEventListener('change', () => onchange(node.value));
  return node;
}

// Numbers as people read them. 64-bit integers come as strings.
const num = (value) => Number(value || 0);
function digits(value) {
  const size = Math.abs(value);
  return size >= 1000 ? value.toFixed(0) : size >= 100 ? value.toFixed(1)
      : size >= 10 ? value.toFixed(2) : value.toFixed(3);
}
function latency(ns) {
  if (!(ns > 0)) return '–';
  if (ns < 1e3) return ns.toFixed(0) + ' ns';
  if (ns < 1e6) return digits(ns / 1e3) + ' µs';
  return ns < 1e9 ? digits(ns / 1e6) + ' ms' : digits(ns / 1e9) + ' s';
}
function si(value, unit, significant) {
  significant = significant || 3;
  if (!value) return unit ? '0 ' + unit : '0';
  if (!unit && Math.abs(value) < 1000) return String(Number(value.toPrecision(significant)));
  const prefixes = ['p', 'n', 'µ', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'];
  let index = 4 + Math.floor(Math.log10(Math.abs(value)) / 3 + 1e-9);
  index = Math.min(Math.max(index, 0), prefixes.length - 1);
  const scaled = value / Math.pow(1000, index - 4);
  return (Number(scaled.toPrecision(significant))).toString() + ' ' + prefixes[index] + unit;
}
function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) { value /= 1024; ++unit; }
  return (unit ? value.toFixed(1) : value.toFixed(0)) + ' ' + units[unit];
}
const percent = (share) => (share * 100).toFixed(1) + ' %';
const seconds = (s) => s < 10 ? s.toFixed(1) + ' s' : s < 60 ? s.toFixed(0) + ' s'
    : Math.floor(s / 60) + ' min ' + Math.round(s % 60) + ' s';
function when(ms) {
  if (!num(ms)) return '–';
  return new Date(num(ms)).toISOString().replace('T', ' ').slice(0, 16) + ' UTC';
}
function valueText(value) {
  if (!value) return '';
  if (value.text !== undefined) return value.text;
  if (value.boolean !== undefined) return value.boolean ? 'True' : 'False';
  if (value.real !== undefined) return String(value.real);
  return String(value.integer || 0);
}
const enumText = (name, prefix) => (name || '').replace(prefix, '').toLowerCase();
function problemText(problem) {
  return (problem.dims || []).map((d) => d.name + '=' + num(d.value)).join(' ') + ' ' + problem.dtype;
}
const configText = (config) => ((config && config.entries) || [])
    .map((e) => e.param + '=' + valueText(e.value)).join(' ');

// Numbers by size, texts by letters, numbers first.
function compare(a, b) {
  const x = Number(a), y = Number(b);
  const na = a === '' || Number.isNaN(x), nb = b === '' || Number.isNaN(y);
  if (na !== nb) return na ? 1 : -1;
  return na ? String(a).localeCompare(String(b)) : x - y;
}

// A table whose columns sort. Columns: {title, value(row), text(row), numeric, fill(cell, row)}.
// With options.stack a narrow screen shows each row as a list of titles and values; without, the
// table scrolls sideways there.
function table(parent, columns, options) {
  const limit = options.limit || 100;
  const scroll = el(parent, 'div', 'scroll');
  const node = el(scroll, 'table', options.stack ? 'stack' : '');
  const head = el(el(node, 'thead'), 'tr');
  const body = el(node, 'tbody');
  const more = el(parent, 'button', 'more');
  const state = {rows: [], column: options.sort || 0, descending: false, all: false};
  const heads = columns.map((column, index) => {
    const th = el(head, 'th', column.numeric ? 'n' : '');
    th.scope = 'col';
    const button = el(th, 'button', '', column.title);
    button.type = 'button';
    button.addEventListener('click', () => {
      state.descending = state.column === index && !state.descending;
      state.column = index;
      draw();
    });
    return th;
  });
  function draw() {
    const column = columns[state.column];
    const sign = state.descending ? -1 : 1;
    const sorted = state.rows.slice().sort((a, b) =>
        sign * compare(column.value(a), column.value(b)));
    heads.forEach((th, index) => {
      if (index !== state.column) th.removeAttribute('aria-sort');
      else th.setAttribute('aria-sort', state.descending ? 'descending' : 'ascending');
    });
    const shown = state.all ? sorted : sorted.slice(0, limit);
    const rows = document.createDocumentFragment();
    for (const row of shown) {
      const tr = el(rows, 'tr', options.pick ? 'pick' : '');
      if (options.pick) {
        tr.tabIndex = 0;
        tr.addEventListener('click', () => options.pick(row));
        tr.addEventListener('keydown', (event) => { if (event.key === 'Enter') options.pick(row); });
      }
      if (options.mark && options.mark(row)) tr.classList.add('on');
      for (const column of columns) {
        const td = el(tr, 'td', (column.numeric ? 'n ' : '') + (column.css || ''));
        if (options.stack) td.dataset.title = column.title;
        if (column.fill) column.fill(td, row);
        else td.textContent = column.text ? column.text(row) : column.value(row);
      }
    }
    body.replaceChildren(rows);
    more.hidden = state.all || sorted.length <= limit;
    more.textContent = 'Show all ' + sorted.length;
  }
  more.type = 'button';
  more.addEventListener('click', () => { state.all = true; draw(); });
  return {show(rows) { state.rows = rows; draw(); }, draw};
}
function bar(cell, share) {
  const outer = el(cell, 'span', 'bar');
  el(outer, 'i').style.width = Math.min(100, Math.max(0, share * 100)).toFixed(1) + '%';
  cell.append(percent(share));
}

// Charts. Each is drawn anew when the theme changes, since a canvas does not follow the style.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const series = (index) => index < 0 ? css('--sn') : css('--s' + (index % 8));
const faded = (colour, alpha) => colour + Math.round(alpha * 255).toString(16).padStart(2, '0');
function chart(parent, height, make) {
  const plot = el(parent, 'div', 'plot' + (height ? ' ' + height : ''));
  const canvas = el(plot, 'canvas');
  const entry = {chart: null, canvas, make};
  entry.draw = () => {
    if (entry.chart) entry.chart.destroy();
    const config = make();
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', config.label || '');
    entry.chart = new Chart(canvas, config);
  };
  $charts.push(entry);
  entry.draw();
  return entry;
}
function redraw() {
  applyTheme();
  for (const entry of $charts) entry.draw();
}
function applyTheme() {
  Chart.defaults.color = css('--ink2');
  Chart.defaults.borderColor = css('--line');
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Object.assign(Chart.defaults.plugins.tooltip, {
    backgroundColor: css('--surface'), titleColor: css('--ink'), bodyColor: css('--ink2'),
    borderColor: css('--axis'), borderWidth: 1, padding: 10, cornerRadius: 8, boxPadding: 4,
  });
  Object.assign(Chart.defaults.plugins.legend.labels, {usePointStyle: true, boxWidth: 8, boxHeight: 8, padding: 14});
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
// Paper is white whatever the screen is.
function setPrint(on) {
  document.documentElement.classList.toggle('print', on);
  redraw();
}
addEventListener('beforeprint', () => setPrint(true));
addEventListener('afterprint', () => setPrint(false));
applyTheme();

function axis(label, unit, log, extra) {
  // Less than half a decade has too few round numbers for a logarithmic axis.
  if (log && extra && extra.max / extra.min < 3) log = false;
  const ticks = {
    callback(value, index, all) {
      if (log) {
        const digit = value / Math.pow(10, Math.floor(Math.log10(value) + 1e-9));
        const decades = Math.log10(this.max / this.min);
        const wanted = decades > 4 ? [1] : decades > 1.5 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 8];
        if (!wanted.some((w) => Math.abs(digit - w) < 1e-6)) return null;
      }
      // Just enough digits to tell a tick from the next.
      const step = !log && all.length > 1 ? Math.abs(all[1].value - all[0].value) : 0;
      const significant = step > 0 && value ?
          Math.min(Math.max(3, Math.ceil(Math.log10(Math.abs(value) / step)) + 1), 7) : 3;
      return unit === 'ns' ? si(value * 1e-9, 's', significant) : si(value, unit, significant);
    },
    maxRotation: 0, autoSkip: true, autoSkipPadding: 12, includeBounds: false,
  };
  return Object.assign({
    type: log ? 'logarithmic' : 'linear',
    title: {display: Boolean(label), text: label},
    ticks, grid: {drawTicks: false, tickLength: 0},
  }, extra);
}
function footer(text) {
  el($app, 'footer', '', text + ' Written by tunectl ' + ($data.version || '') + ' on ' +
      when($data.created_unix_ms) + '. This file needs no network. Charts by Chart.js (MIT License, ' +
      'in the source of this page).');
}
