// Parts of the page that change: the server sends them as HTML, already escaped, whenever there is
// news. A tab that nobody looks at is not connected.
const kPictureMs = 3000;  // between two pictures, at the least
const kStalledMs = 5000;  // the server ends a connection now and then, and the browser makes another

function replace(node, html) {
  const parsed = new DOMParser().parseFromString(html, 'text/html');
  node.replaceChildren(...parsed.body.childNodes);
}

const pictures = all(document, '[data-refresh]');
let drawn = performance.now();
let drawing = false;
async function redraw() {
  if (drawing || performance.now() - drawn < kPictureMs) return;
  drawing = true;
  try {
    for (const node of pictures) {
      const answer = await fetch(node.dataset.refresh + location.search);
      if (answer.ok) replace(node, await answer.text());
    }
  } catch (error) {
    // The next news tries again.
  }
  drawn = performance.now();
  drawing = false;
}

// Parts that take the server a moment: the sections of another page, at the place of its link.
async function load(node) {
  node.setAttribute('aria-busy', 'true');
  try {
    const answer = await fetch(node.dataset.load);
    const parsed = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (answer.ok) node.replaceChildren(...parsed.querySelectorAll('section.card, footer'));
  } catch (error) {
    // The link stays.
  }
  node.removeAttribute('aria-busy');
}
all(document, '[data-load]').forEach(load);

function follow(node) {
  const note = add(node.parentElement, 'p', 'stalled', 'no connection to the daemon; trying again');
  note.setAttribute('role', 'status');
  note.hidden = true;
  let source = null;
  let waiting = 0;  // the timer of the note
  const close = () => {
    if (source) source.close();
    source = null;
  };
  const open = () => {
    close();
    source = new EventSource(node.dataset.live);
    source.addEventListener('open', () => {
      clearTimeout(waiting);
      waiting = 0;
      note.hidden = true;
    });
    source.addEventListener('error', () => {
      waiting = waiting || setTimeout(() => { note.hidden = false; }, kStalledMs);
      // The browser gives up after some answers, such as one that too many tabs follow.
      if (source && source.readyState === EventSource.CLOSED) setTimeout(watch, 5000);
    });
    source.addEventListener('now', (event) => {
      replace(node, event.data);
      redraw();
    });
    source.addEventListener('end', () => {
      close();
      location.reload();
    });
  };
  const watch = () => {
    if (document.hidden) close();
    else if (!source || source.readyState === EventSource.CLOSED) open();
  };
  document.addEventListener('visibilitychange', watch);
  watch();
}
all(document, '[data-live]').forEach(follow);
