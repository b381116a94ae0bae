const problems = $data.problems || [];
const swept = $data.sweep_dim || '';
const labels = [...new Set(problems.flatMap((p) => (p.kernels || []).map((k) => k.label)))];
const compute = problems.filter((p) => p.bound === 'BOUND_COMPUTE').length * 2 > problems.length;
const unit = compute ? 'FLOP/s' : problems.every((p) => p.work_bytes > 0) ? 'B/s' : '1/s';
const workOf = (p) => unit === 'FLOP/s' ? p.work_flops || 0 : unit === 'B/s' ? p.work_bytes || 0 : 1;
const rate = (p, ns) => ns > 0 ? workOf(p) / ns * 1e9 : null;
const size = (p) => num(((p.problem.dims || []).find((d) => d.name === swept) || {}).value);
const right = (k) => k.outcome === 'OUTCOME_OK' && k.agreement === 'OUTCOME_OK';
const median = (k) => (k.measurement || {}).latency_ns_median || 0;

function head() {
  el($app, 'h1', '', $data.subject);
  el($app, 'p', 'sub', 'Comparison ' + num($data.id) + ' on ' + $data.device_name + ' (' +
      $data.target + '), driver ' + ($data.driver || '–') + ', ' + num($data.rounds) +
      ' rounds by turns, ' + enumText($data.cache_mode, 'CACHE_MODE_') + ' cache, ' +
      when($data.started_unix_ms));
  if ($data.message) el($app, 'p', 'sub', $data.message);
  for (const verdict of $data.verdicts || []) el($app, 'p', 'lead', verdict + '.');
}

// A line for each kernel over the swept dim, and the roof beside them.
// A bar from the slowest to the fastest end of each interval.
const intervals = {
  id: 'intervals',
  afterDatasetsDraw(chart) {
    const {ctx, scales: {y}} = chart;
    chart.data.datasets.forEach((set, index) => {
      if (!chart.isDatasetVisible(index)) return;
      chart.getDatasetMeta(index).data.forEach((point, i) => {
        const {low, high} = set.data[i] || {};
        if (!low || !high) return;
        ctx.save();
        ctx.strokeStyle = set.borderColor;
        ctx.lineWidth = 1.5;
        ctx.beginPath();
        ctx.moveTo(point.x, y.getPixelForValue(low));
        ctx.lineTo(point.x, y.getPixelForValue(high));
        ctx.stroke();
        ctx.restore();
      });
    });
  },
};
function overSizes() {
  const node = card($app, 'Rate over ' + swept,
      'Declared work of the first kernel over the median time. Higher is faster.');
  const found = (p, label) => (p.kernels || []).find((k) => k.label === label) || {};
  const sizes = [...new Set(problems.map(size))].sort((a, b) => a - b);
  const rates = problems.flatMap((p) => (p.kernels || []).map((k) => rate(p, median(k))))
      .concat(problems.map((p) => p.floor_ns > 0 ? rate(p, p.floor_ns) : null)).filter((v) => v > 0);
  const low = Math.min(...rates), high = Math.max(...rates);
  chart(node, 'middle', () => ({
    label: $data.subject,
    type: 'scatter',
    data: {datasets: labels.map((label, index) => ({
      label, showLine: true, borderWidth: 2, pointRadius: 3.5,
      borderColor: series(index), backgroundColor: series(index), clip: 10,
      data: problems.map((p) => ({x: size(p), y: rate(p, median(found(p, label))), p,
                                  low: rate(p, (found(p, label).measurement || {}).latency_ns_high),
                                  high: rate(p, (found(p, label).measurement || {}).latency_ns_low),
                                  k: found(p, label)})).filter((v) => v.y > 0),
    })).concat([{
      label: 'roof', showLine: true, borderDash: [6, 4], borderWidth: 1.5, pointRadius: 0,
      borderColor: series(-1), backgroundColor: series(-1),
      data: problems.filter((p) => p.floor_ns > 0).map((p) => ({x: size(p), y: rate(p, p.floor_ns)})),
    }])},
    options: {
      scales: {x: Object.assign(axis(swept, '', true, {min: sizes[0], max: sizes[sizes.length - 1]}), {
                 afterBuildTicks(scale) { scale.ticks = sizes.map((value) => ({value})); },
                 ticks: {callback: (value) => String(value), maxRotation: 0, autoSkip: true, autoSkipPadding: 12},
               }),
               // Far below the roof all curves would lie on the floor.
               y: high > 8 * low ? axis('', unit, true, {min: low / 1.5, max: high * 1.5})
                                 : axis('', unit, false, {beginAtZero: true})},
      plugins: {tooltip: {callbacks: {label: (item) => item.raw.k ?
          [item.dataset.label + ' ' + si(item.raw.y, unit), latency(median(item.raw.k))] :
          'roof ' + si(item.raw.y, unit)}}},
    },
    plugins: [intervals],
  }));
}

function ofOneProblem() {
  const p = problems[0];
  const node = card($app, 'Rate', 'Declared work of the first kernel over the median time; the ' +
      'dashed line is the roof. Higher is faster.');
  const bars = {type: 'bar', label: 'rate', maxBarThickness: 60, borderRadius: 4,
                data: p.kernels.map((k) => rate(p, median(k)))};
  chart(node, 'middle', () => ({
    label: $data.subject,
    data: {labels: p.kernels.map((k) => k.label), datasets: [
      {...bars, backgroundColor: p.kernels.map((_, i) => series(i))},
      {type: 'line', label: 'roof', pointRadius: 0, borderDash: [6, 4], borderColor: series(-1),
       data: p.kernels.map(() => p.floor_ns > 0 ? rate(p, p.floor_ns) : null)},
    ]},
    options: {scales: {x: {grid: {display: false}}, y: axis('', unit, false, {beginAtZero: true})},
              plugins: {legend: {display: false}}},
  }));
}

function rows() {
  const node = card($app, 'Figures', 'Ratio: time over the first kernel’s, round by round, with its ' +
      '95 % interval.');
  node.classList.add('table');
  const all = problems.flatMap((p) => (p.kernels || []).map((k) => ({p, k})));
  const columns = [
    {title: 'kernel', value: (r) => r.k.label},
    {title: 'ratio', numeric: true, value: (r) => r.k.ratio || 0, text: (r) => !r.k.ratio ? '' :
        r.k.ratio.toFixed(3) + (r.k.ratio_high > r.k.ratio_low ? ' [' + r.k.ratio_low.toFixed(3) +
        ', ' + r.k.ratio_high.toFixed(3) + ']' : '')},
    {title: 'median', numeric: true, value: (r) => median(r.k), text: (r) => latency(median(r.k))},
    {title: '95 % interval', value: (r) => (r.k.measurement || {}).latency_ns_low || 0,
     text: (r) => r.k.measurement ? latency(r.k.measurement.latency_ns_low) + ' to ' +
         latency(r.k.measurement.latency_ns_high) : ''},
    {title: unit, numeric: true, value: (r) => rate(r.p, median(r.k)) || 0,
     text: (r) => median(r.k) ? si(rate(r.p, median(r.k)), unit) : ''},
    {title: 'of roof', numeric: true, value: (r) => (r.k.measurement || {}).peak_fraction || 0,
     text: (r) => r.k.measurement && r.k.measurement.peak_fraction ?
         percent(r.k.measurement.peak_fraction) : ''},
    {title: 'results', value: (r) => right(r.k) ? 'agree' : enumText(
        r.k.outcome === 'OUTCOME_OK' ? r.k.agreement : r.k.outcome, 'OUTCOME_')},
    {title: 'config', css: 'mono', value: (r) => configText(r.k.config)},
    {title: 'compiler', value: (r) => r.k.compiler || ''},
  ];
  if (swept) {
    columns.unshift({title: swept, numeric: true, value: (r) => size(r.p)});
  }
  table(node, columns, {limit: 1000, stack: true}).show(all);
  notes(node, [...new Set(($data.warnings || []).concat(all.flatMap((r) => [
    right(r.k) ? '' : r.k.label + ': ' + (r.k.message || r.k.agreement_message || ''),
    r.k.label + ': config: ' + (r.k.config_source || ''),
    ...(r.k.notes || []).map((note) => r.k.label + ': ' + note)]).filter((note) => note)))]);
}

head();
if (swept) overSizes();
else if (problems.length) ofOneProblem();
rows();
document.body.dataset.ready = 'true';
footer('Each round measures every kernel once, in fresh processes, in an order of its own.');
