// The page: what can be chosen, the panes, how a text grows, and the change of one weight.

function choice(label, id, options, value, change) {
  const select = make("select", { id });
  for (const [key, text] of options) select.append(make("option", { value: String(key), textContent: text }));
  select.value = String(value);
  select.addEventListener("change", () => change(select.value));
  return make("label", {}, label, select);
}

function choose(layer, head) {
  Object.assign(state, { layer, head });
  document.getElementById("layer").value = String(layer);
  document.getElementById("head").value = String(head);
  draw();
}

function headGrid(part, cell, flat = false) {
  const grid = make("div", { className: flat ? "grid flat" : "grid" });
  grid.style.setProperty("--heads", headsOf(part));
  for (const layer of layersOf(part)) {
    grid.append(make("span", { textContent: layer }));
    for (let head = 0; head < headsOf(part); head++) {
      const button = make("button", { type: "button", data: { layer, head }, title: `layer ${layer}, head ${head}` });
      button.setAttribute("aria-label", button.title);
      button.addEventListener("click", () => choose(layer, head));
      cell(button, layer, head);
      grid.append(button);
    }
  }
  return grid;
}

function tint(button, share) { // share in -1 .. 1
  const colour = share < 0 ? "var(--bad)" : "var(--accent)";
  button.style.background = `color-mix(in srgb, ${colour} ${Math.round(100 * Math.min(1, Math.abs(share)))}%, var(--ground))`;
}

// ---------------------------------------------------------------- building the page

const root = document.getElementById("attention");

function strip(names, given, select) {
  const list = make("ol", { className: "strip" });
  names.forEach((name, index) => {
    const button = make("button", { type: "button", textContent: name, title: `token ${index}` });
    button.classList.toggle("written", given !== null && index >= given);
    if (select) {
      button.addEventListener("pointerenter", () => point(index));
      button.addEventListener("pointerleave", () => point(null));
      button.addEventListener("focus", () => point(index));
      button.addEventListener("blur", () => point(null));
      button.addEventListener("click", () => keep(index));
    }
    list.append(make("li", {}, button));
  });
  return list;
}

function point(row) {
  state.row = row;
  draw();
}

function keep(row) {
  state.kept = state.kept === row ? null : row;
  if (state.kept !== null && state.from) state.from.value = String(row);
  draw();
}

function follow(pane) {
  const at = (event) => {
    const box = pane.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - GUTTER) / pane.canvas.cell);
    return row >= 0 && row < pane.visible() ? row : null;
  };
  pane.canvas.addEventListener("pointermove", (event) => { if (at(event) !== state.row) point(at(event)); });
  pane.canvas.addEventListener("pointerleave", () => point(null));
  pane.canvas.addEventListener("click", (event) => { if (at(event) !== null) keep(at(event)); });
}

function buildPane(pane) {
  const both = pane.rows() === pane.columns();
  pane.readers = strip(pane.rows(), state.part === "encoder" ? null : pane.given, true);
  pane.read = strip(pane.columns(), null, false);
  pane.canvas = make("canvas", { className: "map" });
  pane.canvas.setAttribute("role", "img");
  pane.canvas.setAttribute("aria-label", "Rows are tokens that look, columns are tokens that are looked at.");
  pane.says = make("p", { className: "says" });
  const box = make("div", { className: "pane" }, make("h3", { textContent: pane.title }), pane.readers);
  if (!both) box.append(make("p", { className: "axis", textContent: "looks at the source:" }), pane.read);
  box.append(make("div", {}, pane.canvas), pane.says, make("p", { className: "axis", textContent: "all layers (down) and heads" }));
  box.append(headGrid(state.part, (button, layer, head) => {
    const canvas = make("canvas");
    button.append(canvas);
    drawThumbnail(canvas, pane, layer, head);
  }));
  box.append(...numbersOf(pane));
  follow(pane);
  return box;
}

// what the probes say of each head, one number at a time
function numbersOf(pane) {
  const known = pane.heads.filter((one) => one.part === state.part);
  if (!known.length) return [];
  const told = known.find((one) => one.name === state.number) ?? known[0];
  const largest = Math.max(...told.values.flat().map(Math.abs), 1e-9);
  const names = known.map((one) => [one.name, one.name]);
  const pick = choice("of each head", `number${pane.index}`, names, told.name, (name) => { state.number = name; build(); });
  const grid = headGrid(state.part, (button, layer, head) => {
    const value = told.values[told.layers.indexOf(layer)]?.[head];
    if (value === undefined) return;
    tint(button, value / largest);
    button.title += `: ${told.name} ${value.toPrecision(3)}`;
    button.setAttribute("aria-label", button.title);
  }, true);
  const about = make("p", { className: "axis", textContent: `${told.about} Darkest: ${largest.toPrecision(2)}.` });
  return [make("div", { className: "controls" }, pick), grid, about];
}

function controls() {
  const part = state.part, bar = make("div", { className: "controls" });
  if (data.parts.length > 1) {
    bar.append(choice("attention", "part", data.parts.map((one) => [one.name, one.label]), part, (value) => {
      Object.assign(state, { part: value, layer: 0, head: 0, row: null, kept: null });
      build();
    }));
  }
  bar.append(choice("layer", "layer", layersOf(part).map((layer) => [layer, layer]), state.layer, (value) => choose(+value, state.head)));
  const heads = [...Array(headsOf(part)).keys()].map((head) => [head, head]);
  if (heads.length > 1) heads.push([MEAN, "mean of all"]);
  bar.append(choice("head", "head", heads, state.head, (value) => choose(state.layer, +value)));
  if (panes.some((pane) => pane.written)) bar.append(...growth());
  return bar;
}

let timer = null;

function stop() {
  clearInterval(timer);
  timer = null;
  const button = document.getElementById("play");
  if (button) button.textContent = "play";
}

function growth() {
  const written = panes.filter((pane) => pane.written);
  const least = Math.min(...written.map((pane) => pane.given)), most = Math.max(...written.map((pane) => pane.tokens.length));
  const slider = make("input", { type: "range", id: "shown", min: least, max: most, value: state.shown ?? most });
  const button = make("button", { type: "button", id: "play", textContent: timer ? "stop" : "play" });
  const show = (count) => {
    state.shown = count;
    slider.value = count;
    draw();
  };
  slider.addEventListener("input", () => { stop(); show(+slider.value); });
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (+slider.value >= most) show(least);
    button.textContent = "stop";
    timer = setInterval(() => {
      if (+slider.value >= most) return stop();
      show(+slider.value + 1);
    }, 350);
  });
  return [make("label", {}, "tokens so far", slider), button];
}

// two panes and two tokens: how much more the one looks at the other
function comparison() {
  if (panes.length < 2) return null;
  const titles = panes.map((pane, index) => [index, ending(pane.title)]);
  const first = panes[state.a], numbered = (list) => list.map((token, index) => [index, `${index} ${token}`]);
  const [looks, at] = [[first.rows(), 0], [first.columns(), 1]].map(([list, i]) => Math.max(list.indexOf(data.between[i]), 0));
  const from = choice("token that looks", "from", numbered(first.rows()), state.kept ?? looks, drawChange);
  const to = choice("at", "to", numbered(first.columns()), at, drawChange);
  state.from = from.lastChild;
  state.to = to.lastChild;
  const of = (key) => (value) => { state[key] = +value; build(); };
  const bar = make("div", { className: "controls" }, choice("from", "a", titles, state.a, of("a")), choice("to", "b", titles, state.b, of("b")), from, to);
  state.picture = headGrid(state.part, () => {}, true);
  const about = make("p", { className: "axis", textContent: "The change in every head, layers down; a click shows a head. Blue: more; orange: less; full colour: 0.5." });
  return make("section", {}, make("h2", { textContent: "The change in one weight" }), bar, make("output", { id: "change" }), state.picture, about);
}

function drawChange() {
  if (!state.from) return;
  const a = panes[state.a], b = panes[state.b], row = +state.from.value, column = +state.to.value;
  const rowB = b.place(row, a, "row"), columnB = b.place(column, a, "column");
  const change = (layer, head) => {
    const before = a.weight(row, column, layer, head), after = b.weight(rowB, columnB, layer, head);
    return before === null || after === null ? null : { before, after, by: after - before };
  };
  const own = change(state.layer, state.head), head = state.head === MEAN ? "mean of the heads" : `head ${state.head}`;
  const names = (pane, t, s) => `${pane.rows()[t]} → ${pane.columns()[s]}`;
  const one = names(a, row, column), other = names(b, rowB, columnB);
  document.getElementById("change").textContent = own
    ? `${one}${other === one ? "" : ` and ${other}`}: ${digits(own.before)} → ${digits(own.after)}, change ${signed(own.by)} (layer ${state.layer}, ${head})`
    : "One of the two has no such head.";
  for (const button of state.picture.querySelectorAll("button")) {
    const found = change(+button.dataset.layer, +button.dataset.head);
    tint(button, found ? found.by / 0.5 : 0);
    button.title = `layer ${button.dataset.layer}, head ${button.dataset.head}: ${found ? signed(found.by) : "none"}`;
    button.setAttribute("aria-label", button.title);
  }
}

function build() {
  if (!layersOf(state.part).includes(state.layer)) state.layer = layersOf(state.part)[0];
  state.from = null;
  const views = make("div", { className: "panes" });
  const section = make("section", {}, make("h2", { textContent: "Where each token looks" }), controls(), views);
  const compare = comparison();
  root.replaceChildren(section, ...(compare ? [compare] : []));
  for (const pane of having()) views.append(buildPane(pane));
  draw();
}

build();
window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
