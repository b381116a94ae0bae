'use strict';
// Pages are complete without this script, which adds what a picture and a table cannot do by
// themselves: words at the pointer, filters by parameter, and sorting. Text from the data is only
// ever set as textContent.
const all = (node, selector) => [...node.querySelectorAll(selector)];
window.addEventListener('error', (event) => {
  document.body.dataset.errors = (document.body.dataset.errors || '') + event.message + '\n';
});

function add(parent, tag, css, text) {
  const node = parent.appendChild(document.createElement(tag));
  node.className = css;
  node.textContent = text;
  return node;
}

// Words at the pointer: the title of a point, at once and in the page's own style. The same trial
// is marked in all pictures of its section and in the table.
const tip = add(document.body, 'div', 'tip', '');
tip.hidden = true;
let marked = [];
function mark(section, trial) {
  marked.forEach((node) => node.classList.remove('on'));
  marked = trial ? all(section, `[data-trial="${CSS.escape(trial)}"]`) : [];
  marked.forEach((node) => node.classList.add('on'));
}
function hover(event) {
  const point = event.target.closest('svg *');
  const title = point && all(point, ':scope > title')[0];
  tip.hidden = !title;
  if (title) {
    tip.textContent = title.textContent;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, room)) + scrollX + 'px';
    tip.style.top = event.clientY + 14 + scrollY + 'px';
  }
  const owner = event.target.closest('[data-trial]');
  mark(owner && owner.closest('section'), owner && owner.dataset.trial);
}
document.addEventListener('pointermove', hover);
// A point opens the evidence of its trial.
document.addEventListener('click', (event) => {
  const point = event.target.closest('svg [data-trial]');
  const row = point && all(point.closest('section'), 'tr').find((tr) =>
      tr.dataset.trial === point.dataset.trial);
  if (!row) return;
  all(row, 'details')[0].open = true;
  row.scrollIntoView({block: 'nearest'});
});

// Numbers by size, texts by letters, numbers first.
function compare(a, b) {
  const x = Number(a), y = Number(b);
  const na = a === '' || Number.isNaN(x), nb = b === '' || Number.isNaN(y);
  if (na !== nb) return na ? 1 : -1;
  return na ? a.localeCompare(b) : x - y;
}
const keyOf = (cell) => cell.dataset.sort ?? cell.textContent;

function makeSortable(table) {
  const heads = [...table.rows[0].cells];
  heads.forEach((th, column) => {
    const title = th.textContent;
    th.textContent = '';
    const button = add(th, 'button', '', title);
    button.type = 'button';
    button.addEventListener('click', () => {
      const sign = th.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
      heads.forEach((other) => other.removeAttribute('aria-sort'));
      th.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
      const rows = all(table, 'tr[data-trial]');
      rows.sort((a, b) => sign * compare(keyOf(a.cells[column]), keyOf(b.cells[column])));
      table.tBodies[0].append(...rows);
    });
  });
  heads[2].firstChild.click();
}

// A switch for each value of each parameter that varies. A trial is shown while all of its values
// are on, in the table and in the pictures.
function makeFilters(section) {
  const rows = all(section, 'tr[data-trial]');
  const configs = new Map(rows.map((row) => [row.dataset.trial, JSON.parse(row.dataset.config)]));
  const off = new Set();
  const box = all(section, '.filters')[0];
  const values = [...new Set([...configs.values()].flat())];
  const params = [...new Set(values.map((value) => value.split('=', 1)[0]))];
  const count = add(box, 'p', 'note', '');
  const apply = () => {
    const isOff = (trial) => (configs.get(trial) || []).some((value) => off.has(value));
    for (const node of all(section, '[data-trial]')) {
      node.classList.toggle('off', isOff(node.dataset.trial));
    }
    const shown = rows.filter((row) => !row.classList.contains('off')).length;
    count.textContent = shown + ' of ' + rows.length + ' trials shown';
  };
  for (const param of params) {
    const line = add(box, 'div', 'filter', '');
    add(line, 'span', 'mono', param);
    const own = values.filter((value) => value.startsWith(param + '='))
        .map((value) => value.slice(param.length + 1)).sort(compare);
    for (const value of own) {
      const key = param + '=' + value;
      const chip = add(line, 'button', 'chip', value);
      chip.type = 'button';
      chip.setAttribute('aria-pressed', 'true');
      chip.addEventListener('click', () => {
        if (!off.delete(key)) off.add(key);
        chip.setAttribute('aria-pressed', String(!off.has(key)));
        apply();
      });
    }
  }
  apply();
}

for (const table of all(document, 'table.trials')) {
  makeSortable(table);
  makeFilters(table.closest('section'));
}
document.body.dataset.ready = 'true';
