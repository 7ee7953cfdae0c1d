// Hit rate, disk rate, waiting and tokens a second, each with its last minute.
import { byId } from "./dom.js";

const kWindowMillis = 3000;  // over which a rate is taken
const kSamples = 60;         // of a curve

// Sums from a status: experts and n-grams together where bytes and waits are meant.
function sumsOf({ experts, ngrams }) {
  return { at: performance.now(), hits: experts.hits,
           needs: experts.hits + experts.misses + experts.swept,
           bytes: experts.read_bytes + ngrams.read_bytes,
           waited: experts.wait_seconds + ngrams.wait_seconds };
}

function bytesText(bytes) {
  const [unit, name] = bytes >= 1e9 ? [1e9, "GB"] : [1e6, "MB"];
  return `${(bytes / unit).toFixed(bytes / unit < 10 ? 1 : 0)} ${name}`;
}

export class PoolRates {
  constructor() {
    this.sums = [];
    this.curves = new Map();
    this.lastSpeed = null;
  }

  // `tokensPerSecond` of the reply under way, or null.
  update(status, tokensPerSecond) {
    const now = sumsOf(status);
    // A server that was started anew counts from nothing.
    if (this.sums.length > 0 && now.needs < this.sums.at(-1).needs) this.sums = [];
    this.sums.push(now);
    while (this.sums.length > 2 && now.at - this.sums[1].at > kWindowMillis) this.sums.shift();
    const then = this.sums[0];
    const seconds = Math.max(0.001, (now.at - then.at) / 1000);
    const recent = now.needs > then.needs;
    const [hits, needs] = recent ? [now.hits - then.hits, now.needs - then.needs]
                                 : [now.hits, now.needs];
    this.show("hits", needs === 0 ? null : hits / needs, needs === 0 ? "–" :
              `${Math.round((100 * hits) / needs)}%`, recent ? "now" : "since the start");
    const rate = (now.bytes - then.bytes) / seconds;
    this.show("disk", rate, `${bytesText(rate)}/s`, `${bytesText(now.bytes)} in all`);
    const waiting = Math.min(1, (now.waited - then.waited) / seconds);
    this.show("wait", waiting, `${Math.round(100 * waiting)}%`, `${now.waited.toFixed(1)} s in all`);
    if (tokensPerSecond !== null) this.lastSpeed = tokensPerSecond;
    const speed = this.lastSpeed;
    this.show("speed", tokensPerSecond ?? 0,
              speed === null ? "–" : speed.toFixed(speed < 10 ? 1 : 0),
              tokensPerSecond !== null ? "now" : speed === null ? "no reply yet" : "last reply");
  }

  show(name, value, text, note) {
    byId(`rate-${name}`).textContent = text;
    byId(`note-${name}`).textContent = note;
    const curve = this.curves.get(name) ?? [];
    curve.push(value ?? 0);
    if (curve.length > kSamples) curve.shift();
    this.curves.set(name, curve);
    const most = name === "disk" || name === "speed" ? Math.max(...curve, 1e-9) : 1;
    const points = curve.map((sample, i) =>
      `${(100 * (kSamples - curve.length + i)) / (kSamples - 1)} ${22 - (20 * sample) / most}`);
    byId(`curve-${name}`).setAttribute("d", `M${points.join("L")}`);
  }
}
