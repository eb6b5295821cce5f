'use strict';
// Shows what the server sends. All HTML is made there, and all text in it is escaped there.
(() => {
  const byId = (id) => document.getElementById(id);
  const parse = (html) => new DOMParser().parseFromString(`<body>${html}</body>`, 'text/html').body;
  const sections = ['now', 'problems', 'map', 'links', 'federated', 'happened', 'clusters'];

  // Changes one element into another with few steps, so that the focus, the selection and open details stay.
  const morph = (from, to) => {
    if (from.isEqualNode(to)) return;
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || (from.id || '') !== (to.id || '')) {
      from.replaceWith(to);
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && name !== 'open' && name !== 'title') from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    children(from, to);
  };
  const children = (from, to) => {
    const wanted = [...to.childNodes];
    wanted.forEach((node, at) => {
      // A row that has moved is moved, not written again.
      const known = node.id ? [...from.children].find((child) => child.id === node.id) : null;
      if (known && known !== from.childNodes[at]) from.insertBefore(known, from.childNodes[at] || null);
      const there = from.childNodes[at];
      if (there) morph(there, node);
      else from.append(node);
    });
    while (from.childNodes.length > wanted.length) from.lastChild.remove();
  };
  const put = (element, html) => {
    children(element, parse(html));
    ages(element);
  };

  // Ages, as the command line has them.
  const age = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    const m = Math.floor(s / 60);
    const h = Math.floor(s / 3600);
    if (s < 120) return `${s}s`;
    if (m < 10 && s % 60) return `${m}m${s % 60}s`;
    if (h < 3) return `${m}m`;
    if (h < 8 && m % 60) return `${h}h${m % 60}m`;
    return h < 48 ? `${h}h` : `${Math.floor(h / 24)}d`;
  };
  const ages = (within) => {
    for (const time of within.querySelectorAll('time')) {
      const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
      const text = 'span' in time.dataset ? `for ${age(seconds)}`
        : seconds < 0 ? `in ${age(-seconds)}` : `${age(seconds)} ago`;
      if (time.textContent !== text) time.textContent = text;
      if (!time.title) time.title = time.dateTime;
    }
  };

  // Whether what is shown is how it is.
  const state = byId('state');
  let open = false;
  const judge = () => {
    const now = byId('now').firstElementChild;
    const read = Date.parse(now?.dataset.read || '');
    const seconds = (Date.now() - read) / 1000;
    const isOld = seconds > Number(now?.dataset.oldAfter || 60);
    const word = Number.isNaN(read) ? 'reading' : open && !isOld ? 'live' : `old: ${age(seconds)}`;
    if (state.textContent !== word) state.textContent = word;
    state.className = `state ${word === 'live' ? 'live' : word === 'reading' ? '' : 'old'}`;
    document.body.classList.toggle('old', word.startsWith('old'));
    if (now?.dataset.title) document.title = now.dataset.title;
  };

  // One stream for each tab that can be seen: a browser has few connections to a server.
  let stream = null;
  const connect = () => {
    if (stream || document.hidden) return;
    stream = new EventSource('events');
    stream.onopen = () => { open = true; judge(); };
    stream.onerror = () => {
      open = false;
      judge();
      if (stream.readyState !== EventSource.CLOSED) return; // it tries again by itself
      stream = null;
      setTimeout(connect, 3000);
    };
    for (const id of sections) {
      stream.addEventListener(id, (event) => {
        put(byId(id), event.data);
        judge();
        if (id === 'now') again();
      });
    }
  };
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) return connect();
    stream?.close();
    stream = null;
    open = false;
  });

  // Answers to questions: the newest one counts.
  const ask = async (element, path) => {
    element.dataset.asked = path;
    let html = '<p class="unseen">The command that serves this page does not answer.</p>';
    try {
      const answer = await fetch(path);
      const text = await answer.text();
      html = answer.ok ? text : '<p class="unseen">This cannot be answered now. Try again.</p>';
    } catch { /* as above */ }
    if (element.dataset.asked === path) put(element, html);
  };

  // A Service's own view, by the deep link.
  const service = byId('service');
  let shown = '';
  const again = async () => {
    if (!shown) return;
    const kept = byId('diagnosis')?.innerHTML;
    await ask(service, shown);
    if (kept && byId('diagnosis')) put(byId('diagnosis'), kept);
  };
  const follow = async () => {
    const path = location.hash.slice(1);
    shown = path.startsWith('service/') ? path : '';
    service.hidden = !shown;
    if (!shown) return service.replaceChildren();
    byId('diagnosis')?.replaceChildren();
    await ask(service, shown);
    service.focus();
    service.scrollIntoView({ block: 'start' });
  };
  addEventListener('hashchange', follow);

  // The search.
  const found = byId('found');
  const q = byId('q');
  let typed = 0;
  const find = () => {
    const text = q.value.trim();
    found.hidden = !text;
    if (text) ask(found, `search?q=${encodeURIComponent(text)}`);
    else found.replaceChildren();
  };
  q.addEventListener('input', () => { clearTimeout(typed); typed = setTimeout(find, 150); });
  q.form.addEventListener('submit', (event) => {
    event.preventDefault();
    const first = found.querySelector('a');
    if (first) first.click();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && document.activeElement !== q && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      q.focus();
    } else if (event.key === 'Escape') {
      if (q.value) { q.value = ''; find(); } else if (shown) location.hash = 'problems';
    }
  });

  // Buttons.
  document.addEventListener('click', async (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    if (button.dataset.copy) {
      const before = button.textContent;
      if (before === 'Copied') return;
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = 'Copied';
      } catch {
        button.textContent = 'Not permitted';
      }
      setTimeout(() => { button.textContent = before; }, 1500);
    }
    if (button.dataset.diagnose) {
      const diagnosis = byId('diagnosis');
      button.disabled = true;
      put(diagnosis, '<p class="empty loading">Following the request …</p>');
      await ask(diagnosis, `diagnosis/${button.dataset.diagnose}`);
      button.disabled = false;
    }
  });

  setInterval(() => { ages(document); judge(); }, 1000);
  ages(document);
  judge();
  connect();
  follow();
})();
