// Drawing: a large map, a thumbnail, the text with a row's weights.

function sized(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(density, density);
  return pen;
}

const GUTTER = 72;

function drawMap(pane) {
  const { canvas } = pane, weights = pane.weights(), rows = pane.rows(), columns = pane.columns();
  canvas.hidden = !weights;
  if (!weights) return;
  const room = canvas.parentElement.clientWidth;
  const cell = Math.max(2, Math.min(22, Math.floor((room - GUTTER) / columns.length)));
  const pen = sized(canvas, Math.min(room, GUTTER + cell * columns.length), GUTTER + cell * rows.length);
  const ink = colours(), shown = pane.visible(), row = activeRow();
  canvas.cell = cell;
  pen.fillStyle = ink.accent;
  for (let t = 0; t < shown; t++) {
    for (let s = 0; s < columns.length; s++) {
      const weight = weights[t * columns.length + s];
      if (weight <= 0) continue;
      pen.globalAlpha = Math.sqrt(weight) * (row === null || row === t ? 1 : 0.45);
      pen.fillRect(GUTTER + s * cell, GUTTER + t * cell, cell - (cell > 5), cell - (cell > 5));
    }
  }
  pen.globalAlpha = 1;
  pen.font = `${Math.min(11, Math.max(7, cell))}px ui-monospace, monospace`;
  pen.textBaseline = "middle";
  const every = Math.max(1, Math.ceil(9 / cell)); // where cells are small only some are named, and the active row
  for (let t = 0; t < shown; t++) {
    if (t !== row && (t % every || (row !== null && Math.abs(t - row) < every))) continue;
    pen.fillStyle = t === row ? ink.ink : ink.soft;
    pen.textAlign = "right";
    pen.fillText(cut(rows[t]), GUTTER - 4, GUTTER + (t + 0.5) * cell);
  }
  for (let s = 0; s < columns.length; s += every) {
    pen.save();
    pen.translate(GUTTER + (s + 0.5) * cell, GUTTER - 4);
    pen.rotate(-Math.PI / 2);
    pen.fillStyle = ink.soft;
    pen.textAlign = "left";
    pen.fillText(cut(columns[s]), 0, 0);
    pen.restore();
  }
  if (row !== null && row < shown) {
    pen.strokeStyle = ink.ink;
    pen.strokeRect(GUTTER - 0.5, GUTTER + row * cell - 0.5, cell * columns.length + 1, cell);
  }
}

const ending = (text) => (text.length > 30 ? `…${text.slice(-28)}` : text); // where texts of a pair differ
const cut = (text) => (text.length > 10 ? `${text.slice(0, 9)}…` : text);

function drawThumbnail(canvas, pane, layer, head) {
  const map = pane.map(layer);
  if (!map) return;
  canvas.width = map.columns;
  canvas.height = map.rows;
  const pen = canvas.getContext("2d"), image = pen.createImageData(map.columns, map.rows);
  const [red, green, blue] = colours().accent.trim().slice(1).match(/../g).map((pair) => parseInt(pair, 16));
  const start = head * map.rows * map.columns;
  for (let i = 0; i < map.rows * map.columns; i++) image.data.set([red, green, blue, map.data[start + i]], 4 * i);
  pen.putImageData(image, 0, 0);
}

function drawStrip(list, names, from, weights) {
  [...list.children].forEach(({ firstChild: button }, index) => {
    button.style.setProperty("--weight", weights ? Math.sqrt(weights[index] ?? 0) : 0);
    button.classList.toggle("reads", from === index);
    button.setAttribute("aria-pressed", String(from !== null && state.kept === index));
  });
}

function drawPane(pane) {
  drawMap(pane);
  const row = activeRow(), columns = pane.columns().length, weights = pane.weights(), shown = pane.visible();
  const inside = row !== null && row < shown && weights;
  const own = inside ? weights.subarray(row * columns, (row + 1) * columns) : null;
  const both = pane.rows() === pane.columns();
  drawStrip(pane.readers, pane.rows(), inside ? row : null, both ? own : null);
  if (!both) drawStrip(pane.read, pane.columns(), null, own);
  [...pane.readers.children].forEach(({ firstChild: button }, index) => { button.hidden = index >= shown; });
  pane.says.textContent = !weights ? "This run has no such head." : inside ? sentence(pane, row, own) : "Point at a token; a click keeps it.";
}

function sentence(pane, row, weights) {
  const order = [...weights.keys()].sort((x, y) => weights[y] - weights[x]).slice(0, 4).filter((s) => weights[s] > 0);
  const most = order.map((s) => `${pane.columns()[s]} (${s}) ${digits(weights[s])}`).join(" · ");
  return `${pane.rows()[row]} (${row}) looks at ${most || "nothing"}`;
}

function draw() {
  for (const pane of having()) drawPane(pane);
  for (const button of document.querySelectorAll(".grid button")) {
    button.setAttribute("aria-pressed", String(+button.dataset.layer === state.layer && +button.dataset.head === state.head));
  }
  drawChange();
}
