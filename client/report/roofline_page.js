const ROOFLINES = $data.rooflines || [];
const VERDICTS = {
  ROOFLINE_VERDICT_WELL_USED: ['well used', 'good'],
  ROOFLINE_VERDICT_MEMORY_BOUND: ['memory-bound', 'fair'],
  ROOFLINE_VERDICT_COMPUTE_BOUND: ['compute-bound', 'fair'],
  ROOFLINE_VERDICT_LATENCY_LIMITED: ['latency-limited', 'bad'],
  ROOFLINE_VERDICT_INVALID_ROOF: ['above the roof', 'bad'],
};
const MEMORY = /^(dram.*|l1|l2|l3|shared)$/;
const LEVELS = [['dram', 'main memory'], ['l3', 'L3'], ['l2', 'L2'], ['l1', 'L1'], ['shared', 'shared memory']];
const isMemory = (name) => MEMORY.test(name);
const verdictOf = (point) => VERDICTS[point.verdict] || ['unknown', ''];
const subject = (roofline) => roofline.sweep.kernel_name + ' ' + problemText(roofline.sweep.problem);
const median = (point) => (point.trial.measurement || {}).latency_ns_median || 0;
const timed = (point) => median(point) > 0 &&
    ['OUTCOME_OK', 'OUTCOME_ABOVE_ROOF'].includes(point.trial.outcome);
const invalid = (point) => point.verdict === 'ROOFLINE_VERDICT_INVALID_ROOF' ||
    point.trial.outcome === 'OUTCOME_ABOVE_ROOF';
const resourceOf = (use) => enumText(use.resource, 'ROOFLINE_RESOURCE_');
const useOf = (point, resource) => (point.uses || []).find((use) => resourceOf(use) === resource);
const rate = (value, flops) => si(value, flops ? 'FLOP/s' : 'B/s');
const ofRoof = (point) => point.efficiency ? percent(point.efficiency) : '–';

// A roofline as the page works with it.
function prepare(roofline) {
  const view = {roofline, points: roofline.points || [], hidden: new Set(), picked: null};
  view.params = [];
  const seen = new Map();
  view.points.forEach((point, index) => {
    point.number = index + 1;
    point.values = {};
    for (const entry of point.trial.config.entries || []) {
      const value = valueText(entry.value);
      point.values[entry.param] = value;
      if (!seen.has(entry.param)) seen.set(entry.param, new Set());
      seen.get(entry.param).add(value);
    }
    const id = point.trial.id;
    point.again = point.trial.purpose === 'TRIAL_PURPOSE_CONFIRM';
    point.mark = id === roofline.best_trial_id ? 'best' : id === roofline.default_trial_id ? 'default'
        : (roofline.tie_trial_ids || []).includes(id) ? 'tie' : '';
  });
  for (const [name, values] of seen) {
    if (values.size > 1) view.params.push({name, values: [...values].sort(compare)});
  }
  view.best = view.points.find((p) => p.mark === 'best');
  view.plain = view.points.find((p) => p.mark === 'default');
  view.ties = (roofline.tie_trial_ids || []).length;
  view.timed = view.points.filter(timed);
  return view;
}
const visible = (view) => view.points.filter((point) =>
    Object.entries(point.values).every(([name, value]) => !view.hidden.has(name + '=' + value)));

// The coordinates of a point: FLOPs per byte of a level, FLOP/s.
function place(view, point, level) {
  const use = useOf(point, level);
  const counted = (point.uses || []).filter((u) => resourceOf(u) === 'compute' && u.counted)
      .reduce((sum, u) => sum + u.amount, 0);
  const flops = counted || view.roofline.declared_flops || 0;
  const declared = view.roofline.declared_bytes > 0 ? flops / view.roofline.declared_bytes : 0;
  const x = (use && use.intensity) || (level === 'dram' ? declared : 0);
  return x > 0 && flops > 0 && timed(point) ? {x, y: flops / median(point) * 1e9, point} : null;
}
function roofsOf(view) {
  const roofs = new Map();
  for (const point of view.timed) {
    for (const use of point.uses || []) {
      if (resourceOf(use) !== 'launch') roofs.set(use.ceiling, use.roof);
    }
  }
  return roofs;
}

// Text along the roofs, which a legend far away could not give.
const roofLabels = {
  id: 'roofLabels',
  afterDatasetsDraw(chart) {
    const {ctx, chartArea: area} = chart;
    for (const set of chart.data.datasets) {
      if (!set.roof) continue;
      const [from, to] = set.data.map((p) => ({x: chart.scales.x.getPixelForValue(p.x),
                                               y: chart.scales.y.getPixelForValue(p.y)}));
      const angle = Math.atan2(to.y - from.y, to.x - from.x);
      const flat = Math.abs(angle) < 0.01;
      const length = Math.hypot(to.x - from.x, to.y - from.y);
      ctx.save();
      ctx.font = '11px ' + Chart.defaults.font.family;
      const width = ctx.measureText(set.roof).width;
      // Slanted: from where the line enters the plot. Flat: at its right end.
      let start = flat ? length - width - 6 : 8;
      if (!flat && from.y > area.bottom) start += (from.y - area.bottom) / Math.abs(Math.sin(angle));
      if (start + width <= length + 1 || flat) {
        ctx.translate(from.x + start * Math.cos(angle), from.y + start * Math.sin(angle));
        ctx.rotate(angle);
        ctx.lineWidth = 3;
        ctx.strokeStyle = css('--surface');
        ctx.fillStyle = css('--ink2');
        ctx.textBaseline = 'bottom';
        ctx.strokeText(set.roof, 0, -3);
        ctx.fillText(set.roof, 0, -3);
      }
      ctx.restore();
    }
  },
};
function roofSets(roofs, xMin, xMax) {
  const list = [...roofs];
  const bandwidth = Math.max(0, ...list.filter(([n]) => isMemory(n)).map(([, v]) => v));
  const peak = Math.max(0, ...list.filter(([n]) => !isMemory(n)).map(([, v]) => v));
  return list.map(([name, value]) => {
    const memory = isMemory(name);
    const end = memory && peak > 0 ? Math.min(peak / value, xMax) : xMax;
    const begin = memory ? xMin : Math.max(bandwidth > 0 ? value / bandwidth : xMin, xMin);
    return {
      type: 'line', roof: name + '  ' + rate(value, !memory), label: name, pointRadius: 0, hitRadius: 0,
      hoverRadius: 0, borderWidth: 1.75, borderColor: css('--ink3'), backgroundColor: css('--ink3'),
      data: memory ? [{x: begin, y: begin * value}, {x: end, y: end * value}]
          : [{x: begin, y: value}, {x: xMax, y: value}],
    };
  });
}

function tooltipLines(view, point) {
  const m = point.trial.measurement || {};
  const lines = [latency(median(point)) + '  (' + latency(m.latency_ns_low) + ' to ' +
                     latency(m.latency_ns_high) + ')',
                 ofRoof(point) + ' of its roof, ' + verdictOf(point)[0]];
  if (point.reread_factor) lines.push('main memory moved ' + point.reread_factor.toFixed(2) + '× the declared bytes');
  let line = '';
  for (const {name} of view.params) {
    const text = name + '=' + point.values[name];
    if (line && (line + ' ' + text).length > 44) { lines.push(line); line = ''; }
    line += (line ? ' ' : '') + text;
  }
  if (line) lines.push(line);
  return lines;
}
function pointOptions(view, pick) {
  return {
    onClick(event, items) {
      const item = items.find((i) => event.chart.data.datasets[i.datasetIndex].data[i.index].point);
      if (item) pick(event.chart.data.datasets[item.datasetIndex].data[item.index].point);
    },
    interaction: {mode: 'nearest', intersect: true},
    plugins: {
      legend: {position: 'top', align: 'start', labels: {sort: (a, b, data) => (data.datasets[b.datasetIndex].order || 0) - (data.datasets[a.datasetIndex].order || 0),
          filter: (item, data) =>
          !data.datasets[item.datasetIndex].roof && !data.datasets[item.datasetIndex].floor}},
      tooltip: {
        filter: (item) => Boolean(item.raw.point),
        callbacks: {
          title: (items) => items.length ? 'trial ' + num(items[0].raw.point.trial.id) +
              (items[0].raw.point.mark ? ' · ' + items[0].raw.point.mark : '') : '',
          label: (item) => tooltipLines(view, item.raw.point),
        },
      },
    },
  };
}

// Trials by colour, the believed apart from the others, default and best on top.
function pointSets(view, where, colourBy) {
  const groups = new Map();
  const special = {best: [], default: [], invalid: [], again: []};
  const param = view.params.find((p) => p.name === colourBy);
  for (const point of visible(view)) {
    const at = where(point);
    if (!at) continue;
    if (invalid(point)) special.invalid.push(at);
    else if (point.mark === 'best' || point.mark === 'default') special[point.mark].push(at);
    else if (point.again && !param) special.again.push(at);
    else {
      const index = param ? param.values.indexOf(point.values[param.name]) : 0;
      const key = param ? (index < 7 ? index : -1) : 0;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(at);
    }
  }
  const base = {type: 'scatter', pointRadius: 3.5, pointHoverRadius: 6, pointHitRadius: 4, clip: 8};
  const sets = [];
  const order = [...groups.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b);
  for (const key of order) {
    const label = !param ? 'trials' : key < 0 ? 'other values' : param.name + '=' + param.values[key];
    sets.push({...base, label, data: groups.get(key), backgroundColor: faded(series(key), 0.72),
               borderColor: series(key), borderWidth: 0, order: 5});
  }
  if (special.invalid.length) {
    sets.push({...base, label: 'above the roof: not believed', data: special.invalid, pointRadius: 4.5,
               backgroundColor: 'transparent', borderColor: series(7), borderWidth: 1.75, order: 4});
  }
  if (special.again.length) {
    sets.push({...base, label: 'measured again', data: special.again, pointStyle: 'triangle',
               backgroundColor: 'transparent', borderColor: series(0), borderWidth: 1.5, order: 4});
  }
  // Rings: the trials beneath them, mostly the fast ones, stay in sight.
  const big = {...base, pointRadius: 7, pointHoverRadius: 9, backgroundColor: 'transparent', borderWidth: 2.5};
  if (special.default.length) {
    sets.push({...big, label: 'default', data: special.default, pointStyle: 'rectRot',
               borderColor: param ? css('--ink2') : series(1), order: 2});
  }
  if (special.best.length) {
    sets.push({...big, label: 'best', data: special.best, pointStyle: 'rectRounded', pointRadius: 8,
               borderColor: param ? css('--ink') : series(2), order: 1});
  }
  return sets;
}

function rooflineCard(parent, view, pick) {
  const any = view.points.some((p) => place(view, p, 'dram'));
  if (!any) return null;
  const levels = LEVELS.filter(([level]) => view.points.some((p) => place(view, p, level)));
  let level = 'dram';
  const node = card(parent, 'Roofline', 'Rate against arithmetic intensity, for each trial. The lines are ' +
      'what the device reached when its ceilings were measured; no config can lie above the lowest ' +
      'of them.' + (levels.length > 1 ? '' : ' Without hardware counters the bytes are the declared ' +
      'minimum, which is the same for every config, so all of them lie at one intensity.'));
  if (levels.length > 1) {
    select(el(node, 'div', 'controls'), 'Bytes of', levels, level, (value) => { level = value; entry.draw(); });
  }
  const roofs = roofsOf(view);
  const entry = chart(node, '', () => {
    const all = view.points.map((p) => place(view, p, level)).filter(Boolean);
    const peak = Math.max(0, ...[...roofs].filter(([n]) => !isMemory(n)).map(([, v]) => v));
    const slow = Math.min(...[...roofs].filter(([n]) => isMemory(n)).map(([, v]) => v));
    const xs = all.map((p) => p.x).concat(peak && Number.isFinite(slow) ? [peak / slow] : []);
    const xMin = Math.min(...xs) / 10, xMax = Math.max(...xs) * 10;
    const yMin = Math.min(...all.map((p) => p.y)) / 3;
    const yMax = Math.max(peak, ...all.map((p) => p.y)) * 2.5;
    const options = pointOptions(view, pick);
    return {
      label: 'Roofline of ' + subject(view.roofline) + '. ' + (view.roofline.diagnosis || ''),
      type: 'scatter',
      data: {datasets: [...pointSets(view, (p) => place(view, p, level), view.colourBy),
                        ...roofSets(roofs, xMin, xMax)]},
      options: {...options, scales: {
        x: axis('arithmetic intensity, FLOP per byte', '', true, {min: xMin, max: xMax}),
        y: axis('', 'FLOP/s', true, {min: yMin, max: yMax})}},
      plugins: [roofLabels],
    };
  });
  return entry;
}

const EXTRA_AXES = [
  ['number', 'order of the search', (p) => p.number],
  ['registers', 'registers per thread', (p) => num((p.trial.resources || {}).registers)],
  ['spill', 'spilled bytes per thread', (p) => num((p.trial.resources || {}).spill_bytes)],
  ['shared', 'shared memory per block', (p) => num((p.trial.resources || {}).dynamic_shared_bytes) +
      num((p.trial.resources || {}).static_shared_bytes)],
  ['error', 'relative error of the result', (p) => Number((p.trial.error || {}).relative_l2 || 0)],
];
function explorerCard(parent, view, pick, onColour) {
  const node = card(parent, 'All trials', 'Latency of every config, against whatever may explain it. ' +
      'Points with the same value are spread a little sideways.');
  const controls = el(node, 'div', 'controls');
  let across = 'number';
  const useful = EXTRA_AXES.filter(([key, , get]) => key === 'number' || new Set(view.timed.map(get)).size > 1);
  const choices = useful.map(([key, text]) => [key, text]).concat(view.params.map((p) => ['=' + p.name, p.name]));
  select(controls, 'Across', choices, across, (value) => { across = value; entry.draw(); });
  select(controls, 'Colour', [['', 'none']].concat(view.params.map((p) => [p.name, p.name])),
         view.colourBy, (value) => { view.colourBy = value; onColour(); });
  const entry = chart(node, '', () => {
    const param = view.params.find((p) => '=' + p.name === across);
    const extra = EXTRA_AXES.find(([key]) => key === across);
    const where = (point) => {
      if (!timed(point)) return null;
      // Always the same sideways offset for the same trial.
      const jitter = ((point.number * 0.6180339887) % 1 - 0.5) * 0.5;
      const x = param ? param.values.indexOf(point.values[param.name]) + jitter : extra[2](point);
      return {x, y: median(point), point};
    };
    const options = pointOptions(view, pick);
    const floor = view.best && view.best.floor_ns;
    const drawn = visible(view).filter(timed).map(median).concat(floor ? [floor] : []);
    const span = drawn.length ? {min: Math.min(...drawn) / 1.1, max: Math.max(...drawn) * 1.15} : {};
    const sets = pointSets(view, where, view.colourBy);
    const x = param ? axis(param.name, '', false, {
      min: -0.6, max: param.values.length - 0.4,
      afterBuildTicks(scale) { scale.ticks = param.values.map((_, value) => ({value})); },
    }) : axis(extra[1], '', false, {max: Math.max(1, ...view.timed.map((p) => extra[2](p))) * 1.01});
    if (param) x.ticks = {callback: (value) => param.values[value], maxRotation: 60};
    if (floor) {
      const last = param ? param.values.length - 0.4 : Math.max(1, ...view.timed.map((p) => extra[2](p)));
      sets.push({type: 'line', floor: true, roof: 'least time at the roof  ' + latency(floor),
                 label: 'floor', pointRadius: 0, hitRadius: 0, borderWidth: 1.5, borderDash: [6, 4],
                 borderColor: css('--ink3'), data: [{x: param ? -0.6 : 0, y: floor}, {x: last, y: floor}]});
    }
    return {
      label: 'Latency of all trials of ' + subject(view.roofline), type: 'scatter', data: {datasets: sets},
      options: {...options, scales: {x, y: axis('', 'ns', true, span)}},
      plugins: [roofLabels],
    };
  });
  return entry;
}

function filterCard(parent, view, changed) {
  if (!view.params.length) return;
  const node = card(parent, 'Filter', 'Switch values off to leave their trials out of the pictures and the table.');
  node.classList.add('screen-only');
  const box = el(node, 'div', 'filters');
  const chips = [];
  for (const param of view.params) {
    const row = el(box, 'div', 'filter');
    el(row, 'span', 'mono', param.name);
    for (const value of param.values) {
      const key = param.name + '=' + value;
      const chip = el(row, 'button', 'chip', value);
      chip.type = 'button';
      chip.setAttribute('aria-pressed', 'true');
      chip.addEventListener('click', () => {
        if (!view.hidden.delete(key)) view.hidden.add(key);
        chip.setAttribute('aria-pressed', String(!view.hidden.has(key)));
        changed();
      });
      chips.push(chip);
    }
  }
  const row = el(node, 'div', 'controls');
  row.style.margin = '0.75rem 0 0';
  view.shownText = el(row, 'span', '', '');
  const reset = el(row, 'button', '', 'Show everything');
  reset.type = 'button';
  reset.addEventListener('click', () => {
    view.hidden.clear();
    chips.forEach((chip) => chip.setAttribute('aria-pressed', 'true'));
    changed();
  });
}

function verdictCell(cell, point) {
  const [text, css] = verdictOf(point);
  el(cell, 'span', css, timed(point) ? text : enumText(point.trial.outcome, 'OUTCOME_'));
}
function tableCard(parent, view, pick) {
  const node = card(parent, 'Trials', 'Click a title to sort, a row for the evidence behind it.');
  node.classList.add('table');
  const none = 1e300;
  const resources = (p) => p.trial.resources || {};
  const columns = [
    {title: 'trial', numeric: true, value: (p) => num(p.trial.id)},
    {title: '', value: (p) => ({best: 0, default: 1, tie: 2})[p.mark] ?? 3,
     fill(td, p) { if (p.mark) el(td, 'span', 'tag ' + p.mark, p.mark); }},
    {title: 'median', numeric: true, value: (p) => median(p) || none, text: (p) => latency(median(p))},
    {title: '95 % interval', numeric: true, value: (p) => ((p.trial.measurement || {}).latency_ns_low) || none,
     text: (p) => timed(p) ? latency(p.trial.measurement.latency_ns_low) + ' – ' +
         latency(p.trial.measurement.latency_ns_high) : '–'},
    {title: 'of roof', numeric: true, value: (p) => p.efficiency || 0, text: ofRoof},
    {title: 'verdict', css: 'short', value: (p) => timed(p) ? verdictOf(p)[0] : p.trial.outcome, fill: verdictCell},
    {title: 'registers', numeric: true, value: (p) => num(resources(p).registers)},
    {title: 'spills', numeric: true, value: (p) => num(resources(p).spill_bytes)},
  ].concat(view.params.map(({name}) => ({title: name, numeric: true, value: (p) => p.values[name] ?? ''})));
  return table(node, columns, {sort: 2, limit: 50, pick, mark: (p) => p === view.picked});
}

function pair(list, key, value) {
  if (value === undefined || value === '' || value === '–') return;
  el(list, 'dt', '', key);
  el(list, 'dd', '', String(value));
}
function evidence(node, view) {
  node.replaceChildren();
  const point = view.picked;
  if (!point) return;
  const {trial} = point;
  const m = trial.measurement || {}, r = trial.resources || {}, t = trial.telemetry || {};
  const e = trial.error || {}, sweep = view.roofline.sweep;
  el(node, 'h2', '', 'Evidence for trial ' + num(trial.id) + (point.mark ? ' (' + point.mark + ')' : ''));
  if (point.diagnosis) el(node, 'p', '', point.diagnosis + '.');
  notes(node, point.notes);
  const grid = el(node, 'div', 'grid');
  const left = el(el(grid, 'div'), 'dl');
  pair(left, 'config', configText(trial.config));
  pair(left, 'outcome', enumText(trial.outcome, 'OUTCOME_'));
  if (trial.message) pair(left, 'message', trial.message);
  if (timed(point)) {
    pair(left, 'median', latency(m.latency_ns_median) + '  (95 % interval ' + latency(m.latency_ns_low) +
        ' to ' + latency(m.latency_ns_high) + ')');
    pair(left, 'fastest, mean', latency(m.latency_ns_min) + ', ' + latency(m.latency_ns_mean));
    pair(left, 'samples', num(m.sample_count) + (m.stopped_early ? ', cut short as hopeless' : ''));
    pair(left, 'clock, cache', enumText(m.clock, 'CLOCK_') + ', ' + enumText(m.cache_mode, 'CACHE_MODE_'));
    pair(left, 'rates', rate(m.bytes_per_second || 0, false) + ', ' + rate(m.flops_per_second || 0, true));
  }
  pair(left, 'relative error', e.relative_l2 ? Number(e.relative_l2).toExponential(2) + ', worst ' + (e.worst || '–') : '');
  const right = el(el(grid, 'div'), 'dl');
  pair(right, 'registers', num(r.registers) + ' per thread, ' + num(r.spill_bytes) + ' bytes spilled');
  pair(right, 'shared memory', bytes(num(r.static_shared_bytes)) + ' static, ' +
      bytes(num(r.dynamic_shared_bytes)) + ' dynamic');
  pair(right, 'machine code', r.binary_sha256 ? r.binary_sha256.slice(0, 16) + '…, ' + bytes(num(r.binary_bytes)) : '');
  if (t.sm_clock_mhz) {
    pair(right, 'clocks', t.sm_clock_mhz + ' MHz, memory ' + num(t.memory_clock_mhz) + ' MHz');
    pair(right, 'power, temperature', (num(t.power_mw) / 1000).toFixed(0) + ' W, ' + num(t.temperature_c) + ' °C');
    pair(right, 'throttling', num(t.throttle_reasons) ? 'reasons 0x' + num(t.throttle_reasons).toString(16) : 'none');
  }
  pair(right, 'compiled in', (trial.compile_seconds || 0).toFixed(2) + ' s' + (trial.compile_cached ? ', from the cache' : ''));
  pair(right, 'driver, compiler', view.roofline.driver + ', ' + view.roofline.compiler);
  pair(right, 'kernel', sweep.kernel_name + ' ' + (sweep.kernel_hash || '').slice(0, 16) + '…');
  pair(right, 'finished', when(trial.finished_unix_ms));
  pair(right, 'sweep', num(trial.sweep_id) + (num(trial.sweep_id) !== num(sweep.id) ? ' (an earlier one)' : ''));
  if (num(point.profile_id)) pair(right, 'profile', num(point.profile_id));
  uses(node, point);
}
function uses(node, point) {
  if (!(point.uses || []).length) return;
  table(node, [
    {title: 'resource', value: resourceOf},
    {title: 'ceiling', value: (u) => u.ceiling},
    {title: 'limit', numeric: true, value: (u) => u.roof || 0,
     text: (u) => resourceOf(u) === 'launch' ? '–' : rate(u.roof, resourceOf(u) === 'compute')},
    {title: 'work', numeric: true, value: (u) => u.amount || 0,
     text: (u) => resourceOf(u) === 'launch' ? '–' : resourceOf(u) === 'compute' ? si(u.amount, 'FLOP') : bytes(u.amount)},
    {title: 'known from', value: (u) => u.counted ? 'counters' : 'declared'},
    {title: 'least time', numeric: true, value: (u) => u.floor_ns, text: (u) => latency(u.floor_ns)},
    {title: 'of the time', value: (u) => -(u.utilisation || 0), fill: (td, u) => bar(td, u.utilisation || 0)},
  ], {sort: 6, stack: true}).show(point.uses);
}

function summary(parent, view) {
  const {roofline, best, plain} = view;
  const sweep = roofline.sweep;
  el(parent, 'h1', '', subject(roofline));
  el(parent, 'p', 'sub', sweep.device_name + ' (' + sweep.target + '), driver ' + (roofline.driver || '–') +
      ', ' + (roofline.compiler || '–') + ', sweep ' + num(sweep.id) + ', ' + when(sweep.finished_unix_ms) +
      ', ' + (enumText(sweep.cache_mode, 'CACHE_MODE_') || 'cold') + ' cache');
  if (!best) {
    el(parent, 'p', 'lead', 'No config was ok.');
    return;
  }
  const lead = el(parent, 'p', 'lead');
  const colon = best.diagnosis.indexOf(':');
  if (colon > 0) el(lead, 'b', verdictOf(best)[1], best.diagnosis.slice(0, colon + 1));
  lead.append((colon > 0 ? best.diagnosis.slice(colon + 1) : best.diagnosis) + '.');
  const tiles = el(parent, 'div', 'tiles');
  const m = best.trial.measurement;
  tile(tiles, 'Best', latency(m.latency_ns_median), latency(m.latency_ns_low) + ' to ' +
      latency(m.latency_ns_high) + ', ' + num(m.sample_count) + ' samples');
  tile(tiles, 'Of its roof', ofRoof(best), best.floor_ns ? 'least time ' + latency(best.floor_ns) : '');
  if (best.binding === 'ROOFLINE_RESOURCE_COMPUTE') tile(tiles, 'Rate', rate(m.flops_per_second || 0, true), 'declared FLOPs');
  else tile(tiles, 'Rate', rate(m.bytes_per_second || 0, false), 'declared bytes');
  if (plain) overDefault(tiles, roofline.sweep.result || {}, ofRoof(plain) + ' of its roof');
  if (best.reread_factor) {
    tile(tiles, 'Bytes moved', best.reread_factor.toFixed(2) + '×', 'of the declared ' + bytes(roofline.declared_bytes));
  }
  const failed = view.points.length - view.timed.length;
  const configs = new Set(view.points.map((p) => configText(p.trial.config))).size;
  tile(tiles, 'Trials', String(view.points.length), 'of ' + configs + ' configs, ' +
      (failed ? failed + ' not ok' : 'all ok') +
      (view.ties ? ', ' + view.ties + ' as good as the best' : ''));
  notes(parent, (best.notes || []).concat(roofline.notes || []));
  const node = card(parent, 'Winner');
  el(node, 'p', 'mono', configText(best.trial.config));
  uses(node, best);
}

// The param whose values differ most in log latency: the colour that tells most at first sight.
function mostTelling(view) {
  let best = '', share = 0.1;
  const times = view.timed.map((p) => Math.min(Math.log(median(p)), Math.log(4 * median(view.best || p))));
  const mean = times.reduce((a, b) => a + b, 0) / (times.length || 1);
  const total = times.reduce((a, t) => a + (t - mean) ** 2, 0);
  for (const param of view.params) {
    if (param.values.length > 7) continue;
    const groups = new Map();
    view.timed.forEach((p, i) => {
      const group = groups.get(p.values[param.name]) || [0, 0];
      groups.set(p.values[param.name], [group[0] + times[i], group[1] + 1]);
    });
    let between = 0;
    for (const [sum, count] of groups.values()) between += count * (sum / count - mean) ** 2;
    if (total > 0 && between / total > share) { share = between / total; best = param.name; }
  }
  return best;
}

let current = null;
function show(view) {
  current = view;
  $charts.length = 0;
  body.replaceChildren();
  if (view.colourBy === undefined) view.colourBy = mostTelling(view);
  summary(body, view);
  const evidenceCard = () => evidence(proof, view);
  const pick = (point) => {
    view.picked = point;
    proof.hidden = false;
    evidenceCard();
    rows.draw();
    proof.scrollIntoView({block: 'nearest', behavior: 'smooth'});
  };
  const charts = [];
  const changed = () => {
    const shown = visible(view);
    charts.forEach((entry) => entry && entry.draw());
    rows.show(shown);
    if (view.shownText) view.shownText.textContent = shown.length + ' of ' + view.points.length + ' trials shown';
    report(view, shown);
  };
  if (view.timed.length) {
    charts.push(rooflineCard(body, view, pick));
    charts.push(explorerCard(body, view, pick, () => charts.forEach((entry) => entry && entry.draw())));
  }
  const proof = el(body, 'section', 'card');
  proof.hidden = true;
  filterCard(body, view, changed);
  const rows = tableCard(body, view, pick);
  changed();
}
// For those who test this page: how much of the data is drawn.
function report(view, shown) {
  const drawn = (entry) => entry.chart.data.datasets.reduce((sum, set) =>
      sum + set.data.filter((p) => p.point).length, 0);
  Object.assign(document.body.dataset, {
    points: view.points.length, shown: shown.length, drawn: $charts.map(drawn).join(','),
    roofs: [...roofsOf(view).keys()].join(','), ready: 'true',
  });
}

function overview(views) {
  el($app, 'h1', '', 'Rooflines of ' + views.length + ' problems');
  el($app, 'p', 'sub', 'The newest finished sweep of each problem and device. Choose a row for its details.');
  const node = card($app);
  const list = table(node, [
    {title: 'kernel', value: (v) => v.roofline.sweep.kernel_name},
    {title: 'problem', value: (v) => problemText(v.roofline.sweep.problem)},
    {title: 'device', value: (v) => v.roofline.sweep.device_name},
    {title: 'best', numeric: true, value: (v) => v.best ? median(v.best) : 1e300,
     text: (v) => v.best ? latency(median(v.best)) : '–'},
    {title: 'of roof', value: (v) => v.best ? v.best.efficiency || 0 : 0,
     fill: (td, v) => v.best ? bar(td, v.best.efficiency || 0) : td.append('–')},
    {title: 'verdict', value: (v) => v.best ? verdictOf(v.best)[0] : '', fill: (td, v) => v.best && verdictCell(td, v.best)},
    {title: 'over default', numeric: true, value: (v) => v.best && v.plain ? median(v.plain) / median(v.best) : 0,
     text: (v) => v.best && v.plain ? (median(v.plain) / median(v.best)).toFixed(2) + '×' : '–'},
  ], {limit: 64, stack: true, pick(view) { show(view); list.draw(); body.scrollIntoView({behavior: 'smooth'}); },
      mark: (v) => v === current});
  return list;
}

const views = ROOFLINES.map(prepare);
const list = views.length > 1 ? overview(views) : null;
const body = el($app, 'div');
if (views.length) show(views[0]);
if (list) list.show(views);
document.body.dataset.rooflines = String(views.length);
footer('“Of its roof” is the least time that the busiest resource needs over the measured time. Below 60 % ' +
       'no resource is the limit; above 80 % little is left; above 103 % nothing is believed.');
