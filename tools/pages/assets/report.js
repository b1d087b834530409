'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const list = document.getElementById('list'), pane = document.getElementById('node');
  const rows = [...list.querySelectorAll('tr[id]')];
  const place = new Map(rows.map((row, i) => [row.id, i]));
  let users = null, current = null;

  // Only ever as text: names come from the model.
  const add = (to, tag, text, name) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (name) e.className = name;
    to.append(e);
    return e;
  };
  const time = us => us >= 1e6 ? (us / 1e6).toPrecision(3) + ' s' : us >= 1e3 ? (us / 1e3).toPrecision(3) + ' ms'
    : us.toPrecision(3) + ' µs';
  const nameOf = i => {
    const row = data.rows[i];
    return row.input || row.name || (row.op === undefined ? 'result' : data.operators[row.op]);
  };
  const usersOf = i => {
    if (!users) {
      users = new Map();
      data.rows.forEach((row, to) => (row.inputs || []).forEach(from => {
        if (!users.has(from)) users.set(from, []);
        users.get(from).push(to);
      }));
    }
    return users.get(i) || [];
  };

  const field = (dl, name, text, mono) => {
    if (text === undefined || text === '') return;
    add(dl, 'dt', name);
    add(dl, 'dd', text, mono ? 'm' : '');
  };
  const links = (dl, name, ids) => {
    if (!ids.length) return;
    add(dl, 'dt', name);
    const dd = add(dl, 'dd', undefined, 'm');
    ids.slice(0, 12).forEach((id, i) => {
      if (i) dd.append(', ');
      add(dd, 'button', nameOf(id)).addEventListener('click', () => select(id, true));
    });
    if (ids.length > 12) dd.append(` and ${ids.length - 12} more`);
  };

  function describe(i) {
    const row = data.rows[i], dl = document.createElement('dl');
    const segment = data.segments[row.segment];
    const reason = data.reasons[row.reason];
    pane.replaceChildren();
    add(pane, 'button', 'Close', 'close').addEventListener('click', () => pane.classList.remove('open'));
    add(pane, 'h3', row.op === undefined ? (row.input ? 'input ' + row.input : 'result') : data.operators[row.op]);
    if (row.op !== undefined) field(dl, 'node', rows[place.get('n' + i)].cells[1].textContent, true);
    field(dl, 'type', data.types[row.type], true);
    if (segment) field(dl, 'runs in', `${segment.target}, segment @${row.segment} of ${segment.nodes} nodes`);
    if (reason) {
      field(dl, 'reason', reason.code);
      field(dl, 'why', reason.detail);
      field(dl, 'change', reason.remedy);
    }
    if (row.cause !== undefined) links(dl, 'because of', [row.cause]);
    if (row.module !== undefined)
      field(dl, 'module', data.modules[row.module] + (row.module_guessed ? ' (as its neighbours)' : ''), true);
    field(dl, 'line', row.line && `${row.line} of the graph text`);
    field(dl, 'source', row.place, true);
    if (row.us) {
      const all = data.run.profiled_us;
      field(dl, 'time', `${time(row.us)}, ${(100 * row.us / all).toFixed(1)} % of the run`);
      const peaks = data.run.peaks, gflops = (row.flops || 0) / row.us / 1e3, gbytes = (row.bytes || 0) / row.us / 1e3;
      const part = (x, peak) => peaks && peak ? ` (${(100 * x / peak).toFixed(0)} % of the peak)` : '';
      if (row.flops) field(dl, 'computes', gflops.toFixed(1) + ' GFLOP/s' + part(gflops, peaks && peaks.gflops));
      if (row.bytes) field(dl, 'moves', gbytes.toFixed(2) + ' GB/s' + part(gbytes, peaks && peaks.gbytes_per_second));
    }
    field(dl, 'layer', row.layer, true);
    links(dl, 'takes', row.inputs || []);
    links(dl, 'goes to', usersOf(i));
    pane.append(dl);
    pane.classList.add('open');
  }

  function select(i, scroll) {
    const row = document.getElementById('n' + i);
    if (!row) return;
    if (current) {
      current.classList.remove('at');
      current.removeAttribute('aria-selected');
    }
    current = row;
    row.classList.add('at');
    row.setAttribute('aria-selected', 'true');
    list.setAttribute('aria-activedescendant', row.id);
    describe(i);
    if (scroll) row.scrollIntoView({block: 'nearest'});
  }
  const numberOf = row => Number(row.id.slice(1));

  list.addEventListener('click', e => {
    const row = e.target.closest('tr[id]');
    if (row) select(numberOf(row));
  });
  list.addEventListener('keydown', e => {
    const steps = {ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 25, PageUp: -25, Home: -rows.length, End: rows.length};
    if (e.key === 'Escape') pane.classList.remove('open');
    if (!(e.key in steps) || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    const shown = rows.filter(row => !row.hidden);
    if (!shown.length) return;
    const at = current ? shown.indexOf(current) : -1;
    const next = Math.min(Math.max(at + steps[e.key], 0), shown.length - 1);
    select(numberOf(shown[next]), true);
  });
  document.addEventListener('click', e => {
    const link = e.target.closest('a[href^="#n"]');
    if (!link || !/^#n\d+$/.test(link.getAttribute('href'))) return;
    e.preventDefault();
    const i = Number(link.getAttribute('href').slice(2)), row = document.getElementById('n' + i);
    if (!row) return;
    select(i);
    row.scrollIntoView({block: 'center'});
    list.focus({preventScroll: true});
  });

  const filter = document.getElementById('filter'), found = document.getElementById('found');
  let wait = 0;
  const apply = () => {
    const wanted = filter.value.trim().toLowerCase();
    list.classList.toggle('filtered', wanted !== '');
    let count = 0;
    for (const row of rows) {
      const i = numberOf(row), module = data.modules[data.rows[i].module] || '';
      row.hidden = wanted !== '' && !(row.textContent + ' ' + module).toLowerCase().includes(wanted);
      count += !row.hidden;
    }
    for (const chunk of list.children)
      chunk.style.setProperty('--n', wanted === '' ? chunk.dataset.n : chunk.querySelectorAll('tr[id]:not([hidden])').length);
    found.textContent = wanted === '' ? '' : `${count} of ${rows.length} rows`;
  };
  filter.addEventListener('input', () => {
    clearTimeout(wait);
    wait = setTimeout(apply, 120);
  });
  for (const chunk of list.children) chunk.dataset.n = chunk.style.getPropertyValue('--n');

  for (const head of document.querySelectorAll('.sheet thead th')) {
    const button = add(head, 'button');
    button.textContent = head.firstChild.textContent;
    head.firstChild.remove();
    button.type = 'button';
    button.className = 'sort';
    button.addEventListener('click', () => {
      const body = head.closest('table').tBodies[0], column = head.cellIndex;
      const down = head.getAttribute('aria-sort') !== 'descending';
      for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => {
        const cell = row.cells[column];
        return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
      };
      const sorted = [...body.rows].sort((a, b) => {
        const x = key(a), y = key(b);
        return (typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y))) * (down ? -1 : 1);
      });
      body.append(...sorted);
    });
  }

  document.getElementById('save').addEventListener('click', () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([document.getElementById('data').textContent], {type: 'application/json'}));
    link.download = 'report.json';
    link.click();
    URL.revokeObjectURL(link.href);
  });
  document.documentElement.classList.remove('noscript');
  const start = /^#n\d+$/.test(location.hash) ? Number(location.hash.slice(2)) : -1;
  if (start >= 0) select(start, true);
})();
