"use strict";
(function () {
  const root = document.documentElement;
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 12, ROW = 8, STEP = 11, LINE = 17;
  const FREE = -1, OTHERS = -2, LEAVING = -3;
  const THEMES = { "": "as the system", light: "light", dark: "dark" };
  const filter = document.getElementById("filter");
  const sorted = new Map(); // by table the column and the direction
  let map = null;

  function make(tag, attributes, parent, text) {
    const element = tag === "svg" || tag === "rect" ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  }

  // The theme: as the system has it, light or dark. A page that is opened from a disk may have no storage.
  function kept() {
    try { return localStorage.getItem("kai-sched-theme") || ""; } catch { return ""; }
  }
  function setTheme(theme) {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    document.getElementById("theme").textContent = "Theme: " + THEMES[theme];
    try { localStorage.setItem("kai-sched-theme", theme); } catch { /* not kept */ }
  }
  function nextTheme() {
    const names = Object.keys(THEMES);
    setTheme(names[(names.indexOf(root.dataset.theme || "") + 1) % names.length]);
  }

  // Rows and nodes without the text are hidden.
  function applyFilter() {
    const wanted = filter.value.trim().toLowerCase();
    for (const list of document.querySelectorAll("[data-filtered]")) {
      for (const row of list.tagName === "TABLE" ? list.tBodies : list.children) {
        row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
      }
    }
    if (map) map.tiles.forEach((tile, place) => { tile.hidden = wanted !== "" && !nodeText(place).includes(wanted); });
  }

  function sortBy(table, column, down) {
    const header = table.tHead.rows[0].cells[column];
    const numbers = header.querySelector("button").dataset.sort === "number";
    const value = (body) => {
      const cell = body.rows[0].cells[column];
      return numbers ? Number(cell.dataset.value || cell.textContent) : cell.textContent;
    };
    const order = (a, b) => numbers ? value(a) - value(b) : value(a).localeCompare(value(b), undefined, { numeric: true });
    table.append(...[...table.tBodies].sort((a, b) => down ? order(b, a) : order(a, b)));
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    sorted.set(table.id, [column, down]);
  }

  // The map of nodes: a tile for each, whose GPUs are drawn when it comes into view.
  function buildMap() {
    const box = document.getElementById("node-map");
    map = null;
    if (!box) return;
    const data = JSON.parse(document.getElementById("node-data").textContent);
    const observer = new IntersectionObserver((entries) => {
      for (const each of entries) if (each.isIntersecting) draw(Number(each.target.dataset.place));
    }, { rootMargin: "300px" });
    map = { data, box, observer, tiles: [], texts: [], only: -1, chosen: 0 };
    const tiles = document.createDocumentFragment();
    data.nodes.forEach(([name, state, gpus], place) => {
      const tile = make("div", { class: state ? "node apart" : "node", role: "option", "data-place": place, tabindex: place ? -1 : 0, title: name, "aria-selected": "false" }, tiles);
      make("span", {}, tile, name.split(".")[0]);
      make("svg", { width: Math.min(ROW, gpus.length) * STEP, height: Math.ceil(gpus.length / ROW) * LINE, "aria-hidden": "true" }, tile);
      map.tiles.push(tile);
      observer.observe(tile);
    });
    box.replaceChildren(tiles);
    buildLegend(data);
    detail(0, false);
  }

  function draw(place) {
    const [name, state, gpus] = map.data.nodes[place];
    const tile = map.tiles[place], picture = tile.querySelector("svg");
    map.observer.unobserve(tile);
    tile.setAttribute("aria-label", name + ": " + [state, ...parts(gpus)].filter(Boolean).join(", "));
    picture.replaceChildren();
    gpus.forEach((gpu, number) => {
      const x = (number % ROW) * STEP + 1, y = Math.floor(number / ROW) * LINE + 1;
      const empty = state ? "apart-gpu" : "free";
      if (!Array.isArray(gpu)) {
        rect(picture, x, y, 15, kind(gpu, empty), queueOf(gpu));
        return;
      }
      rect(picture, x, y, 15, empty, -1);
      let top = y + 15;
      for (let at = 0; at < gpu.length; at += 2) {
        const height = Math.max(1, Math.min(top - y, 15 * gpu[at + 1]));
        top -= height;
        rect(picture, x, top, height, kind(gpu[at], empty), queueOf(gpu[at]));
      }
    });
  }
  function rect(picture, x, y, height, style, queue) {
    const pale = map.only >= 0 && queue !== map.only ? " pale" : "";
    make("rect", { x, y, width: 9, height, class: "gpu " + style + pale, "data-queue": queue }, picture);
  }
  function holder(gpu) {
    return map.data.workloads[gpu <= LEAVING ? LEAVING - gpu : gpu];
  }
  function queueOf(gpu) {
    return gpu === FREE || gpu === OTHERS ? -1 : holder(gpu)[1];
  }
  function colour(queue) {
    return "q" + queue % COLOURS + (queue >= COLOURS ? " again" : "");
  }
  function kind(gpu, empty) {
    if (gpu === FREE) return empty;
    if (gpu === OTHERS) return "others";
    return colour(queueOf(gpu)) + (gpu <= LEAVING ? " leaving" : "");
  }

  // Who holds the GPUs of a node, equal ones as one.
  function parts(gpus) {
    const counts = new Map();
    const add = (text, amount) => counts.set(text, (counts.get(text) || 0) + amount);
    for (const gpu of gpus) {
      if (Array.isArray(gpu)) {
        for (let at = 0; at < gpu.length; at += 2) add(named(gpu[at]), gpu[at + 1]);
      } else add(gpu === FREE ? "free" : gpu === OTHERS ? "held by other pods" : named(gpu), 1);
    }
    return [...counts].map(([text, amount]) => Number(amount.toFixed(2)) + " " + text);
  }
  function named(gpu) {
    const [name, queue] = holder(gpu);
    return name + " (" + map.data.queues[queue] + ")" + (gpu <= LEAVING ? ", leaving" : "");
  }
  function nodeText(place) {
    const [name, state, gpus] = map.data.nodes[place];
    return map.texts[place] ??= [name, state, ...parts(gpus)].join(" ").toLowerCase();
  }
  function detail(place, focus) {
    const box = document.getElementById("node-detail"), [name, state, gpus] = map.data.nodes[place];
    map.tiles[map.chosen].tabIndex = -1;
    map.tiles[map.chosen].setAttribute("aria-selected", "false");
    map.chosen = place;
    map.tiles[place].tabIndex = 0;
    map.tiles[place].setAttribute("aria-selected", "true");
    if (focus) map.tiles[place].focus();
    box.replaceChildren();
    make("strong", {}, box, name + (state ? " (" + state + ")" : ""));
    make("div", {}, box, "GPUs: " + parts(gpus).join(", "));
  }
  function buildLegend(data) {
    const box = document.getElementById("legend"), held = data.queues.map(() => 0);
    for (const [, , gpus] of data.nodes) {
      for (const gpu of gpus) {
        if (Array.isArray(gpu)) { for (let at = 0; at < gpu.length; at += 2) held[queueOf(gpu[at])] += gpu[at + 1]; }
        else if (queueOf(gpu) >= 0) held[queueOf(gpu)] += 1;
      }
    }
    box.replaceChildren();
    data.queues.forEach((name, queue) => {
      if (!held[queue]) return;
      const button = make("button", { type: "button", "data-queue": queue, "aria-pressed": "false" }, box);
      make("rect", { class: "gpu " + colour(queue), width: 11, height: 11, x: 0.5, y: 0.5 }, make("svg", { "aria-hidden": "true" }, button));
      make("span", {}, button, name + " " + Number(held[queue].toFixed(2)));
    });
    for (const [style, text] of [["free", "free"], ["apart-gpu", "on a node that accepts no pods"], ["others", "other pods"], ["q0 leaving", "pale: leaving"]]) {
      const entry = make("span", { class: "note" }, box);
      make("rect", { class: "gpu " + style, width: 11, height: 11, x: 0.5, y: 0.5 }, make("svg", { "aria-hidden": "true" }, entry));
      entry.append(" " + text);
    }
  }
  function showOnly(queue) {
    map.only = map.only === queue ? -1 : queue;
    for (const button of document.querySelectorAll("#legend button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.queue) === map.only));
    }
    for (const box of map.box.querySelectorAll("rect")) {
      box.classList.toggle("pale", map.only >= 0 && Number(box.dataset.queue) !== map.only);
    }
  }
  // To the next node that is shown; up and down by the position on the screen.
  function move(key) {
    const shown = map.tiles.filter((tile) => !tile.hidden), at = shown.indexOf(map.tiles[map.chosen]);
    if (!shown.length) return;
    const last = shown.length - 1;
    const here = shown[Math.max(0, at)];
    const above = here.getBoundingClientRect();
    const line = (step) => {
      for (let next = at + step; next >= 0 && next <= last; next += step) {
        const box = shown[next].getBoundingClientRect();
        if (Math.abs(box.left - above.left) < 2 && box.top !== above.top) return next;
      }
      return at;
    };
    const targets = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last };
    const target = key === "ArrowDown" ? line(1) : key === "ArrowUp" ? line(-1) : targets[key];
    detail(Number(shown[Math.min(last, Math.max(0, target))].dataset.place), true);
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("button, .node");
    if (!target) return;
    if (target.id === "theme") nextTheme();
    else if (target.dataset.sort) {
      const table = target.closest("table"), column = target.closest("th").cellIndex;
      const [before, down] = sorted.get(table.id) || [-1, false];
      sortBy(table, column, before === column ? !down : target.dataset.sort === "number");
    } else if (target.dataset.queue) showOnly(Number(target.dataset.queue));
    else if (target.dataset.place) detail(Number(target.dataset.place), true);
  });
  document.addEventListener("mouseover", (event) => {
    const tile = event.target.closest && event.target.closest(".node");
    if (tile && !map.box.contains(document.activeElement)) detail(Number(tile.dataset.place), false);
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.classList.contains("node")) detail(Number(event.target.dataset.place), false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === filter) {
      if (event.key === "Escape") { filter.value = ""; applyFilter(); }
      return;
    }
    if (event.key === "/") { event.preventDefault(); filter.focus(); }
    else if (event.key === "t") nextTheme();
    else if (event.target.classList.contains("node") && /^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key)) {
      event.preventDefault();
      move(event.key);
    }
  });
  filter.addEventListener("input", applyFilter);

  // Paper has no scrolling: all is drawn and opened before it is printed, and closed again afterwards.
  window.addEventListener("beforeprint", () => {
    if (map) map.data.nodes.forEach((_, place) => draw(place));
    for (const each of document.querySelectorAll("details:not([open])")) { each.open = true; each.dataset.opened = ""; }
  });
  window.addEventListener("afterprint", () => {
    for (const each of document.querySelectorAll("details[data-opened]")) { each.open = false; delete each.dataset.opened; }
  });

  // The operator says when there is another page; what was chosen, sorted and opened stays so.
  function replaceMain(text) {
    const next = new DOMParser().parseFromString(text, "text/html").getElementById("content");
    if (!next) { location.reload(); return; }
    const old = document.getElementById("content"), scroll = window.scrollY;
    const open = new Set([...old.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    const chosen = map && map.data.nodes[map.chosen][0], only = map ? map.data.queues[map.only] : undefined;
    const focused = document.activeElement && document.activeElement.id;
    const inMap = Boolean(map) && map.box.contains(document.activeElement);
    old.replaceWith(next);
    for (const each of next.querySelectorAll("details")) each.open = open.has(each.dataset.key);
    buildMap();
    for (const [id, [column, down]] of sorted) {
      const table = document.getElementById(id);
      if (table) sortBy(table, column, down);
    }
    if (map) {
      if (map.data.queues.includes(only)) showOnly(map.data.queues.indexOf(only));
      detail(Math.max(0, map.data.nodes.findIndex(([name]) => name === chosen)), inMap);
    }
    applyFilter();
    if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
    window.scrollTo(0, scroll);
  }
  function live() {
    const status = document.getElementById("live");
    let busy = false, again = false;
    async function refresh() {
      if (busy) { again = true; return; }
      busy = true;
      try {
        do {
          again = false;
          const answer = await fetch("page", { cache: "no-store" });
          if (!answer.ok) throw new Error(answer.statusText);
          replaceMain(await answer.text());
          status.textContent = "live";
        } while (again);
      } catch { status.textContent = "the page could not be updated"; }
      busy = false;
    }
    const number = document.getElementById("content").dataset.number;
    const events = new EventSource("page/events?after=" + number);
    events.addEventListener("open", () => { status.textContent = "live"; });
    events.addEventListener("cycle", refresh);
    events.addEventListener("error", () => {
      status.textContent = events.readyState === EventSource.CLOSED ? "ended: load the page again" : "connection lost, trying again";
    });
  }

  setTheme(kept());
  buildMap();
  if (root.dataset.live !== undefined) live();
})();
