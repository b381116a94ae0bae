const fusions = $data.fusions || [];
const unfused = $data.unfused_step || {};
const fused = $data.fused_step || {};
const ratio = (value) => value > 0 ? value.toFixed(2) : '';
const known = (value, text) => value > 0 ? text(value) : '';
const share = (part, whole) => whole > 0 ? percent((part || 0) / whole) : '';
const bytesOf = (f, work) => f.bytes_counted ? work.counted_bytes : work.bytes;

function head() {
  el($app, 'h1', '', 'Fusions in a training step of ' + $data.name);
  const ceiling = $data.memory_ceiling;
  el($app, 'p', 'sub', $data.device_name + ' (' + $data.target + '), driver ' +
      ($data.driver || '–') +
      (ceiling ? ', memory’s ceiling ' + si(ceiling.value, 'B/s') : '') +
      ', ' + when($data.created_unix_ms));
  el($app, 'p', 'sub', ($data.sizes || []).map((s) => s.name + '=' + s.value).join(' ') + ' ' +
      $data.dtype + '. ' + ($data.source || ''));
}

function ratios() {
  const node = card($app, 'The sequence over the fused kernel',
      'How many times the bytes and the time of the fused kernel its sequence takes.');
  const bars = {type: 'bar', maxBarThickness: 50, borderRadius: 4};
  chart(node, 'middle', () => ({
    label: 'fusions',
    data: {labels: fusions.map((f) => f.name), datasets: [
      {...bars, label: 'bytes', backgroundColor: series(0),
       data: fusions.map((f) => f.bytes_ratio)},
      {...bars, label: 'time', backgroundColor: series(1),
       data: fusions.map((f) => f.time_ratio || null)},
    ]},
    options: {scales: {x: {grid: {display: false}}, y: axis('', '', false, {beginAtZero: true})}},
  }));
}

function figures() {
  const node = card($app, 'Figures', '* bytes as the specs declare them, not counted.');
  node.classList.add('table');
  const mark = (f, text) => text + (f.bytes_counted ? '' : ' *');
  table(node, [
    {title: 'fusion', value: (f) => f.name},
    {title: 'fused', value: (f) => f.fused.kernel},
    {title: 'sequence', value: (f) => f.sequence.map((w) => w.name).join(', ')},
    {title: 'bytes', numeric: true, value: (f) => bytesOf(f, f.fused),
     text: (f) => mark(f, bytes(bytesOf(f, f.fused)))},
    {title: 'sequence’s', numeric: true, value: (f) => bytesOf(f, f.unfused),
     text: (f) => mark(f, bytes(bytesOf(f, f.unfused)))},
    {title: 'more', numeric: true, value: (f) => f.bytes_ratio, text: (f) => ratio(f.bytes_ratio)},
    {title: 'time', numeric: true, value: (f) => f.fused.latency_ns || 0,
     text: (f) => known(f.fused.latency_ns, latency)},
    {title: 'sequence’s', numeric: true, value: (f) => f.unfused.latency_ns || 0,
     text: (f) => known(f.unfused.latency_ns, latency)},
    {title: 'longer', numeric: true, value: (f) => f.time_ratio || 0,
     text: (f) => !f.time_ratio ? '' : ratio(f.time_ratio) + ' [' + ratio(f.time_ratio_low) + ', ' +
         ratio(f.time_ratio_high) + ']'},
    {title: 'in a step', numeric: true, value: (f) => f.times},
  ], {limit: 100}).show(fusions);
  notes(node, fusions.filter((f) => f.doc).map((f) => f.name + ': ' + f.doc)
      .concat($data.notes || []));
}

function step() {
  const node = card($app, 'The step', 'At the ceilings: each kernel’s declared work at the ceiling ' +
      'that binds it. As measured: measured kernels as measured, the others at their ceilings.');
  node.classList.add('table');
  table(node, [
    {title: 'step', value: (r) => r.name},
    {title: 'at the ceilings', numeric: true, value: (r) => r.step.floor_ns || 0,
     text: (r) => known(r.step.floor_ns, latency)},
    {title: 'bandwidth-bound', value: (r) => share(r.step.memory_floor_ns, r.step.floor_ns)},
    {title: 'as measured', numeric: true, value: (r) => r.step.latency_ns || 0,
     text: (r) => r.step.measured_share > 0 ? latency(r.step.latency_ns) : ''},
    {title: 'bandwidth-bound', value: (r) => r.step.measured_share > 0 ?
        share(r.step.memory_latency_ns, r.step.latency_ns) : ''},
    {title: 'measured share', value: (r) => percent(r.step.measured_share || 0)},
  ], {limit: 10}).show([{name: 'unfused', step: unfused}, {name: 'fused', step: fused}]);
}

function kernels() {
  const node = card($app, 'Kernels of the step', 'As the specs declare them, and as their newest ' +
      'sweeps on this device found.');
  node.classList.add('table');
  const all = ($data.parts || []).map((w) => ({w, part: w.name, times: w.times})).concat(
      fusions.flatMap((f) => [{w: f.fused, part: f.name + ': fused', times: f.times}].concat(
          f.sequence.map((w) => ({w, part: f.name + ': ' + w.name, times: f.times * w.times})))));
  table(node, [
    {title: 'part', value: (r) => r.part},
    {title: 'kernel', value: (r) => r.w.kernel},
    {title: 'problem', css: 'mono', value: (r) => problemText(r.w.problem)},
    {title: 'times', numeric: true, value: (r) => r.times},
    {title: 'bytes', numeric: true, value: (r) => r.w.bytes, text: (r) => bytes(r.w.bytes)},
    {title: 'floor', numeric: true, value: (r) => r.w.floor_ns || 0,
     text: (r) => known(r.w.floor_ns, latency)},
    {title: 'bound', value: (r) => enumText(r.w.bound, 'BOUND_')},
    {title: 'median', numeric: true, value: (r) => r.w.latency_ns || 0,
     text: (r) => known(r.w.latency_ns, latency)},
    {title: 'of roof', numeric: true, value: (r) => r.w.peak_fraction || 0,
     text: (r) => known(r.w.peak_fraction, percent)},
    {title: 'sweep', numeric: true, value: (r) => num(r.w.sweep_id),
     text: (r) => num(r.w.sweep_id) || ''},
  ], {limit: 1000}).show(all);
}

head();
if (fusions.length) ratios();
figures();
step();
kernels();
document.body.dataset.ready = 'true';
footer('A sequence’s time is the sum of its kernels’, each measured by itself with a cold cache.');
