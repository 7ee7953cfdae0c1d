// Watches the server: asks for its state, often while something happens, seldom otherwise.
import { fetchHealth, fetchStatus } from "./api.js";

const kBusyMillis = 400;
const kIdleMillis = 3000;
const kAwayMillis = 1500;  // while it loads or does not answer

// Calls `onStatus(status)` and, when it changes, `onState(state)`: "ok", "loading", "gone" or "key".
export class ServerWatch {
  constructor({ onStatus, onState }) {
    this.onStatus = onStatus;
    this.onState = onState;
    this.state = null;
    this.status = null;
    this.busy = false;
    this.timer = null;
    this.asking = false;
    document.addEventListener("visibilitychange", () => this.poke());
  }

  // A reply is being written, or the picture of the pool is shown.
  setBusy(busy) {
    if (this.busy === busy) return;
    this.busy = busy;
    this.poke();
  }

  // Asks now.
  poke() {
    clearTimeout(this.timer);
    if (!this.asking) this.ask();
  }

  async ask() {
    if (document.hidden) return;  // poke() goes on
    this.asking = true;
    let state = await fetchHealth();
    if (state !== "gone") {
      try {
        this.status = await fetchStatus();
      } catch (error) {
        state = error.kind === "key" ? "key" : "gone";
      }
    }
    this.asking = false;
    if (state !== this.state) {
      this.state = state;
      this.onState(state);
    }
    if (state === "ok" || state === "loading") this.onStatus(this.status);
    const active = this.busy || this.status?.running > 0;
    const pause = state !== "ok" ? kAwayMillis : active ? kBusyMillis : kIdleMillis;
    this.timer = setTimeout(() => this.ask(), pause);
  }
}
