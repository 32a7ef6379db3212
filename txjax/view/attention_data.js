"use strict";
// Attention maps over the data of txjax/view/attention.py. A weight w is a byte 255 sqrt(w), which is its shade, too.

const data = JSON.parse(document.getElementById("data").textContent);
const state = { part: data.parts[0].name, layer: 0, head: 0, row: null, kept: null, shown: null, number: null, a: 0, b: 1 };
const MEAN = -1;

function make(tag, fields = {}, ...children) {
  const { data: tags = {}, ...own } = fields;
  const element = Object.assign(document.createElement(tag), own);
  Object.assign(element.dataset, tags);
  element.append(...children);
  return element;
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// ---------------------------------------------------------------- what the data holds

class Pane {
  constructor(told, index) {
    Object.assign(this, told, { index, cache: new Map() });
    this.written = this.given < this.tokens.length;
  }

  map(layer = state.layer, part = state.part) {
    const map = (this.maps[part] ?? []).find((one) => one.layer === layer);
    if (map && !map.data) map.data = bytesOf(map.bytes);
    return map;
  }

  // the weights of a head, or the mean over heads, row after row; null where this run has none
  weights(layer = state.layer, head = state.head, part = state.part) {
    const name = `${part} ${layer} ${head}`;
    if (this.cache.has(name)) return this.cache.get(name);
    const map = this.map(layer, part);
    if (!map || head >= map.heads) return null;
    const size = map.rows * map.columns, found = new Float32Array(size);
    const heads = head === MEAN ? [...Array(map.heads).keys()] : [head];
    for (const h of heads) {
      for (let i = 0; i < size; i++) found[i] += (map.data[h * size + i] / 255) ** 2 / heads.length;
    }
    this.cache.set(name, found);
    return found;
  }

  rows(part = state.part) { return part === "encoder" ? this.source : this.tokens; }
  columns(part = state.part) { return part === "self" ? this.tokens : this.source; }

  // rows that are there yet: a text that the model writes grows
  visible(part = state.part) {
    const all = this.rows(part).length;
    return part === "encoder" || state.shown === null || !this.written ? all : Math.min(all, state.shown);
  }

  // the token of this pane that stands where one of another pane stands: counted from the start as far as both texts
  // are the same, from the end where they are the same again
  place(index, other, axis) {
    const own = axis === "row" ? this.rows() : this.columns();
    const its = axis === "row" ? other.rows() : other.columns();
    let same = 0;
    while (same < Math.min(own.length, its.length) && own[same] === its[same]) same++;
    if (index < same) return index;
    const fromEnd = its.length - 1 - index;
    let tail = 0;
    while (tail < Math.min(own.length, its.length) - same && own[own.length - 1 - tail] === its[its.length - 1 - tail]) tail++;
    if (fromEnd < tail) return own.length - 1 - fromEnd;
    return Math.min(index, own.length - 1 - tail);
  }

  weight(row, column, layer = state.layer, head = state.head) {
    const found = this.weights(layer, head), width = this.columns().length;
    return found && row < this.rows().length && column < width ? found[row * width + column] : null;
  }
}

const panes = data.panes.map((told, index) => new Pane(told, index));
const having = () => panes.filter((pane) => pane.maps[state.part]); // two runs may be of two kinds
const layersOf = (part) => [...new Set(panes.flatMap((pane) => (pane.maps[part] ?? []).map((map) => map.layer)))].sort((x, y) => x - y);
const headsOf = (part) => Math.max(...panes.flatMap((pane) => (pane.maps[part] ?? []).map((map) => map.heads)), 0);
const activeRow = () => state.row ?? state.kept;
const digits = (value) => value.toFixed(3);
const signed = (value) => (value < 0 ? "−" : "+") + digits(Math.abs(value));

function colours() {
  const style = getComputedStyle(document.documentElement);
  return { ink: style.getPropertyValue("--ink"), soft: style.getPropertyValue("--soft"), accent: style.getPropertyValue("--accent"), bad: style.getPropertyValue("--bad") };
}
