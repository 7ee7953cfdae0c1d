// The list of conversations on the left and the pool on the right: beside the messages where there is
// room, else over them, one at a time.
import { byId } from "./dom.js";
import { keep, recall } from "./store.js";

// As in the style sheet.
const kRoom = { sidebar: "(min-width: 800px)", pool: "(min-width: 1180px)" };

export class Panels {
  constructor() {
    for (const name of Object.keys(kRoom)) {
      const room = matchMedia(kRoom[name]);
      this.set(name, room.matches && recall(`panel.${name}`, true));
      room.addEventListener("change", () =>
        this.set(name, room.matches && recall(`panel.${name}`, true)));
      byId(`toggle-${name}`).addEventListener("click", () => this.toggle(name));
    }
    byId("close-sidebar").addEventListener("click", () => this.toggle("sidebar"));
    byId("close-pool").addEventListener("click", () => this.toggle("pool"));
    byId("scrim").addEventListener("click", () => this.closeOverlays());
  }

  isOpen(name) {
    return document.body.dataset[name] === "open";
  }

  isOverlay(name) {
    return this.isOpen(name) && !matchMedia(kRoom[name]).matches;
  }

  set(name, open) {
    document.body.dataset[name] = open ? "open" : "closed";
    byId(`toggle-${name}`).setAttribute("aria-expanded", String(open));
    const covered = this.isOverlay("sidebar") || this.isOverlay("pool");
    byId("scrim").hidden = !covered;
    byId("main").inert = covered;
  }

  toggle(name) {
    const open = !this.isOpen(name);
    if (open) this.closeOverlays();
    this.set(name, open);
    if (!this.isOverlay(name) && matchMedia(kRoom[name]).matches) keep(`panel.${name}`, open);
    if (open && this.isOverlay(name)) byId(`close-${name}`).focus();
    if (!open) byId(`toggle-${name}`).focus();
  }

  // True if there was one.
  closeOverlays() {
    for (const name of Object.keys(kRoom)) {
      if (!this.isOverlay(name)) continue;
      this.toggle(name);
      return true;
    }
    return false;
  }
}
