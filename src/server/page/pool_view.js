// The live picture of the slot pool: a tile for each layer, a cell for each expert.
import { byId, el } from "./dom.js";
import { PoolRates } from "./pool_rates.js";

const kGlowMillis = 1600;  // an expert that has just been read fades into the others
const kColumns = 4;
const kNarrowest = 48;  // pixels of a tile, for its number and share below
const kGap = 8;
const kLabel = 13;
const kGapBelow = 5;
const kMostCell = 7;  // CSS pixels

function decodeBits(hex, count) {
  const bits = new Uint8Array(count);
  for (let i = 0; i < count; ++i) bits[i] = (parseInt(hex[i >> 2], 16) >> (3 - (i & 3))) & 1;
  return bits;
}

function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)}%` : "–";
}

function colorOf(id) {
  return getComputedStyle(byId(id)).backgroundColor.match(/[\d.]+/g).slice(0, 3).map(Number);
}

export class PoolView {
  constructor() {
    this.canvas = byId("pool-picture");
    this.caption = byId("pool-caption");
    this.table = byId("pool-table");
    this.rates = new PoolRates();
    this.pool = null;
    this.bits = null;   // [layers, experts]
    this.since = null;  // when each expert came, or 0
    this.cells = document.createElement("canvas");  // a pixel for each expert
    this.frame = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.describe(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    byId("pool-details").addEventListener("toggle", () => this.fillTable());
  }

  // `tokensPerSecond` of the reply under way, or null.
  update(status, tokensPerSecond) {
    this.rates.update(status, tokensPerSecond);
    const { pool, plan } = status;
    if (!pool || pool.layers.length === 0) return;
    const experts = pool.experts_per_layer;
    const bits = new Uint8Array(pool.layers.length * experts);
    pool.layers.forEach((layer, l) => bits.set(decodeBits(layer.resident, experts), l * experts));
    const first = this.bits?.length !== bits.length;
    if (first) this.since = new Float64Array(bits.length);
    const now = performance.now();
    let changed = first;
    for (let i = 0; i < bits.length; ++i) {
      if (!first && bits[i] === this.bits[i]) continue;
      changed = true;
      this.since[i] = !first && bits[i] ? now : 0;
    }
    this.bits = bits;
    this.pool = pool;
    byId("pool-plan").textContent = planText(plan);
    this.describe(null);
    this.fillTable();
    if (changed) this.draw();
  }

  // What the mouse is on, or the whole.
  describe(l) {
    if (!this.pool) return;
    const { layers, slots, held, experts_per_layer: experts } = this.pool;
    const whole = `${held.toLocaleString("en")} of ${slots.toLocaleString("en")} slots hold one of ` +
                  `${(layers.length * experts).toLocaleString("en")} experts.`;
    if (l === null) {
      this.caption.textContent = whole;
      this.canvas.setAttribute("aria-label", whole);
      return;
    }
    const { held: here, hits, misses, swept } = layers[l];
    const asked = hits + misses + swept;
    this.caption.textContent = `Layer ${l}: ${here} of ${experts} in memory; ` +
      (asked === 0 ? "not asked yet." : `${percent(hits, asked)} of ${asked.toLocaleString("en")} found.`);
  }

  // Tiles in CSS pixels; a cell is a whole number of the screen's.
  layout() {
    const ratio = devicePixelRatio || 1;
    const width = this.canvas.parentElement.clientWidth;
    const experts = this.pool.experts_per_layer;
    const across = 2 ** Math.ceil(Math.log2(Math.sqrt(experts)));
    const down = Math.ceil(experts / across);
    const cellOf = (columns) => {
      const room = (width - (columns - 1) * kGap) / columns;
      return Math.max(1, Math.floor(Math.min(room / across, kMostCell) * ratio)) / ratio;
    };
    // Fewer columns where a tile would be too narrow for its label.
    let columns = kColumns;
    while (columns > 1 && cellOf(columns) * across < kNarrowest) --columns;
    const cell = cellOf(columns);
    const step = { x: (width + kGap) / columns, y: cell * down + kLabel + kGapBelow };
    const rows = Math.ceil(this.pool.layers.length / columns);
    return { ratio, width, across, down, cell, columns, step, height: rows * step.y };
  }

  draw() {
    if (!this.pool || this.canvas.parentElement.clientWidth === 0) return;
    const place = this.layout();
    const { ratio, width, height, across, down, cell, columns, step } = place;
    this.place = place;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const glows = this.paintCells(across, down);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    const style = getComputedStyle(this.caption);
    context.font = `10px ${style.fontFamily}`;
    context.textBaseline = "alphabetic";
    const behind = getComputedStyle(byId("pool")).backgroundColor;
    this.pool.layers.forEach((layer, l) => {
      const x = Math.round((l % columns) * step.x * ratio) / ratio;
      const y = Math.round(Math.floor(l / columns) * step.y * ratio) / ratio;
      context.drawImage(this.cells, 0, l * down, across, down, x, y, across * cell, down * cell);
      if (cell >= 4) {
        context.fillStyle = behind;
        for (let i = 1; i < across; ++i) context.fillRect(x + i * cell - 0.5, y, 1, down * cell);
        for (let i = 1; i < down; ++i) context.fillRect(x, y + i * cell - 0.5, across * cell, 1);
      }
      context.fillStyle = style.color;
      context.textAlign = "left";
      context.fillText(String(l), x, y + down * cell + 11);
      context.textAlign = "right";
      context.fillText(percent(layer.held, this.pool.experts_per_layer), x + across * cell,
                       y + down * cell + 11);
    });
    cancelAnimationFrame(this.frame);
    if (glows) this.frame = requestAnimationFrame(() => this.draw());
  }

  // True while something fades.
  paintCells(across, down) {
    const experts = this.pool.experts_per_layer;
    const [absent, here, fresh] = ["swatch-disk", "swatch-memory", "swatch-fresh"].map(colorOf);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.cells.width = across;
    this.cells.height = down * this.pool.layers.length;
    const context = this.cells.getContext("2d");
    const image = context.createImageData(this.cells.width, this.cells.height);
    const now = performance.now();
    let glows = false;
    for (let i = 0; i < this.bits.length; ++i) {
      const layer = Math.floor(i / experts);
      const at = 4 * (layer * across * down + (i - layer * experts));
      const age = this.since[i] === 0 ? 1 : Math.min(1, (now - this.since[i]) / kGlowMillis);
      const glow = this.bits[i] && age < 1 ? (still ? 1 : 1 - age) : 0;
      glows ||= glow > 0;
      const base = this.bits[i] ? here : absent;
      for (let c = 0; c < 3; ++c) image.data[at + c] = base[c] + glow * (fresh[c] - base[c]);
      image.data[at + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return glows;
  }

  point(event) {
    if (!this.place) return;
    const { columns, step } = this.place;
    const column = Math.min(columns - 1, Math.floor(event.offsetX / step.x));
    const l = Math.floor(event.offsetY / step.y) * columns + column;
    this.describe(l >= 0 && l < this.pool.layers.length ? l : null);
  }

  fillTable() {
    if (!byId("pool-details").open || !this.pool) return;
    this.table.replaceChildren(...this.pool.layers.map(({ held, hits, misses, swept }, l) =>
      el("tr", {}, el("th", { scope: "row" }, String(l)), el("td", {}, String(held)),
         el("td", {}, percent(hits, hits + misses + swept)),
         el("td", {}, (misses + swept).toLocaleString("en")))));
  }
}

function planText(plan) {
  if (!plan) return "";
  const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(bytes < 1e10 ? 2 : 1)} GB`;
  return `${gigabytes(plan.total_bytes)} of ${gigabytes(plan.budget_bytes)} planned; ` +
         `${plan.threads} threads, ${plan.kernels} kernels, ${plan.io} reads`;
}
