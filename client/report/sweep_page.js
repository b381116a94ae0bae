const sweep = $data.sweep;
const result = sweep.result || {};
const params = $data.params || [];

function head() {
  el($app, 'h1', '', sweep.kernel_name + ' ' + problemText(sweep.problem));
  el($app, 'p', 'sub', 'Sweep ' + num(sweep.id) + ' on ' + sweep.device_name + ' (' + sweep.target +
      '), driver ' + ($data.driver || '–') + ', ' + ($data.compiler || '–') + ', ' + sweep.strategy +
      ' search, ' + when(sweep.created_unix_ms));
  if (sweep.message) {
    const state = sweep.interrupted ? 'interrupted' : enumText(sweep.state, 'JOB_STATE_');
    el($app, 'p', 'sub', state + ': ' + sweep.message);
  }
  const tiles = el($app, 'div', 'tiles');
  const best = (result.best && result.best.measurement) || {};
  tile(tiles, 'Best', latency(best.latency_ns_median), best.latency_ns_low ?
      latency(best.latency_ns_low) + ' to ' + latency(best.latency_ns_high) : '');
  if (result.too_noisy) tile(tiles, 'Noise', 'high', 'its interval is too wide to believe the latency');
  overDefault(tiles, result);
  tile(tiles, 'Configs ok', String(num($data.configs_ok)), 'of ' +
      num(sweep.progress && sweep.progress.space_size) + ' in the space');
  if ($data.explained_share) {
    tile(tiles, 'Explained by single params', percent($data.explained_share),
        'of the spread of latencies; the rest is how params act together, and noise');
  }
  if (result.best) {
    const node = card($app, 'Winner');
    el(node, 'p', 'mono', configText(result.best.config));
  }
}

// A card for each parameter: quartiles as bars, medians and fastest as points.
function effect(parent, param) {
  const node = card(parent, param.param);
  el(node, 'p', 'note', 'explains ' + percent(param.explained_share || 0) + ' of the spread, ' +
      'medians differ up to ' + param.spread.toFixed(2) + '×' +
      (param.winner_value ? ', winner has ' + valueText(param.winner_value) : ''));
  const labels = param.values.map((v) => valueText(v.value));
  const winner = valueText(param.winner_value);
  const all = param.values.flatMap((v) => [v.latency_ns_best, v.latency_ns_low, v.latency_ns_high]);
  const span = {min: Math.min(...all) / 1.15, max: Math.max(...all) * 1.2};
  const colours = () => labels.map((l) => l === winner ? series(2) : series(0));
  chart(node, 'small', () => ({
    label: param.param,
    data: {labels, datasets: [
      {type: 'line', showLine: false, label: 'median', pointStyle: 'rectRot', pointRadius: 6,
       data: param.values.map((v) => v.latency_ns_median), pointBackgroundColor: colours(),
       pointBorderColor: css('--surface')},
      {type: 'line', showLine: false, label: 'fastest', pointStyle: 'circle', pointRadius: 4,
       data: param.values.map((v) => v.latency_ns_best), pointBackgroundColor: 'transparent',
       pointBorderColor: css('--ink2'), pointBorderWidth: 1.5},
      {type: 'bar', label: 'quartiles', maxBarThickness: 26, borderRadius: 4, borderSkipped: false,
       data: param.values.map((v) => [v.latency_ns_low, v.latency_ns_high]),
       backgroundColor: colours().map((c) => faded(c, 0.28))},
    ]},
    options: {
      scales: {x: {grid: {display: false}, ticks: {maxRotation: 60}}, y: axis('', 'ns', true, span)},
      plugins: {legend: {display: false}, tooltip: {callbacks: {label: (item) => {
        const v = param.values[item.dataIndex];
        return ['median ' + latency(v.latency_ns_median), 'quartiles ' + latency(v.latency_ns_low) +
            ' to ' + latency(v.latency_ns_high), 'fastest ' + latency(v.latency_ns_best),
            num(v.configs) + ' configs'];
      }}, filter: (item, index) => index === 0}},
      interaction: {mode: 'index', intersect: false},
    },
  }));
}

function heat() {
  const map = $data.heatmap;
  if (!map) return;
  const node = card($app, map.row_param + ' against ' + map.column_param,
      'The fastest config of each pair of values. Together the two explain ' +
      percent(map.interaction_share || 0) + ' of the spread beyond what they explain one by one.');
  const known = map.cells.map((c) => c.latency_ns_best || 0).filter((v) => v > 0);
  const low = Math.min(...known), high = Math.max(...known);
  const grid = el(el(node, 'div', 'scroll'), 'table', 'heat');
  const top = el(el(grid, 'thead'), 'tr');
  el(top, 'th', '', map.row_param + ' ╲ ' + map.column_param);
  for (const value of map.columns) el(top, 'th', '', valueText(value)).scope = 'col';
  const body = el(grid, 'tbody');
  map.rows.forEach((value, r) => {
    const tr = el(body, 'tr');
    el(tr, 'th', '', valueText(value)).scope = 'row';
    map.columns.forEach((_, c) => {
      const cell = map.cells[r * map.columns.length + c];
      const ns = cell.latency_ns_best || 0;
      const td = el(tr, 'td', ns > 0 ? '' : 'none', ns > 0 ? latency(ns) : 'none');
      if (!(ns > 0)) return;
      const share = high > low ? Math.log(ns / low) / Math.log(high / low) : 0;
      td.style.background = 'color-mix(in srgb, var(--s0) ' + (60 - 56 * share).toFixed(0) +
          '%, var(--surface))';
      if (ns === low) td.style.fontWeight = '700';
      td.title = num(cell.configs) + ' configs, median ' + latency(cell.latency_ns_median);
    });
  });
}

function timeline() {
  const points = $data.timeline || [];
  if (!points.length) return;
  const node = card($app, 'How the search went', 'The best latency found so far.');
  let by = 'trial_number';
  const all = points.map((p) => p.best_latency_ns);
  const span = {min: Math.min(...all) / 1.03, max: Math.max(...all) * 1.03};
  const controls = el(node, 'div', 'controls');
  select(controls, 'Against', [['trial_number', 'trials'], ['seconds', 'seconds']], by, (value) => {
    by = value;
    view.draw();
  });
  const view = chart(node, 'middle', () => ({
    label: 'best latency so far',
    type: 'scatter',
    data: {datasets: [{
      label: 'best so far', showLine: true, stepped: 'before', borderWidth: 2, pointRadius: 3.5,
      borderColor: series(0), backgroundColor: series(0),
      data: points.map((p) => ({x: num(p[by]), y: p.best_latency_ns, p})),
    }]},
    options: {
      scales: {x: axis(by === 'seconds' ? 'since the start' : 'trials', by === 'seconds' ? 's' : '',
                       false, {beginAtZero: true}),
               y: axis('', 'ns', true, span)},
      plugins: {legend: {display: false}, tooltip: {callbacks: {label: (item) => {
        const p = item.raw.p;
        return [latency(p.best_latency_ns) + ', trial ' + num(p.trial_id),
                'after ' + num(p.trial_number) + ' trials, ' + seconds(p.seconds || 0)];
      }}}},
    },
  }));
  // The line steps down where an improvement was found.
  document.body.dataset.timeline = String(points.length);
}

function outcomes() {
  const node = card($app, 'Outcomes');
  node.classList.add('table');
  const rows = [];
  for (const outcome of $data.outcomes || []) {
    const name = enumText(outcome.outcome, 'OUTCOME_');
    const examples = outcome.examples && outcome.examples.length ? outcome.examples : [{}];
    examples.forEach((example, index) => rows.push({
      name: index ? '' : name, count: num(index ? example.count : outcome.count),
      order: rows.length, example,
    }));
  }
  table(node, [
    {title: 'outcome', value: (r) => r.order, text: (r) => r.name},
    {title: 'count', numeric: true, value: (r) => r.count},
    {title: 'example', css: 'long', value: (r) => r.example.message || '', fill(td, r) {
      if (!r.example.message) { td.textContent = ''; return; }
      el(td, 'pre', '', r.example.message);
      el(td, 'div', 'sub', 'trial ' + num(r.example.trial_id) + ': ' + configText(r.example.config));
    }},
  ], {limit: 1000, stack: true}).show(rows);
}

head();
if (params.length) {
  const intro = card($app, 'What each parameter is worth',
      'Most important first. A bar spans the middle half of the configs with that value, the ' +
      'diamond is their median, the ring the fastest of them; green is the winner’s value.');
  notes(intro, $data.notes);
  const grid = el($app, 'div', 'grid');
  for (const param of params) effect(grid, param);
} else {
  notes($app, $data.notes);
}
heat();
timeline();
outcomes();
document.body.dataset.params = String(params.length);
document.body.dataset.ready = 'true';
footer('Shares are of the variance of log latency, adjusted for the number of values.');
