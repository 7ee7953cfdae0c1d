// The list of conversations and what can be done with one.
import { fileName, toMarkdown } from "./conversation.js";
import { byId, download, el, iconButton } from "./dom.js";

function when(time) {
  return new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

export class Sidebar {
  // `actions`: open(id), rename(conversation, title), remove(conversation), reveal() the list.
  constructor(actions) {
    this.actions = actions;
    this.conversations = [];
    this.current = null;
    this.list = byId("conversations");
    this.menu = byId("conversation-menu");
    this.find = byId("find");
    this.find.addEventListener("input", () => this.render());
    const item = (id, run) => byId(id).addEventListener("click", () => {
      this.menu.hidePopover();
      run(this.chosen);
    });
    item("menu-rename", (chosen) => this.rename(chosen));
    item("menu-markdown", (chosen) => download(fileName(chosen, "md"), "text/markdown",
                                               toMarkdown(chosen)));
    item("menu-json", (chosen) => download(fileName(chosen, "json"), "application/json",
                                           JSON.stringify(chosen, null, 1)));
    item("menu-delete", (chosen) => this.actions.remove(chosen));
    this.menu.addEventListener("keydown", (event) => this.moveInMenu(event));
  }

  update(conversations, current) {
    this.conversations = conversations;
    this.current = current;
    this.render();
  }

  matches(conversation) {
    const wanted = this.find.value.trim().toLowerCase();
    return wanted === "" || conversation.title.toLowerCase().includes(wanted) ||
      Object.values(conversation.messages).some(
        (message) => message.content.toLowerCase().includes(wanted));
  }

  render() {
    if (this.list.querySelector("input")) return;  // a name is being typed
    const shown = this.conversations.filter((conversation) => this.matches(conversation));
    this.list.replaceChildren(...shown.map((conversation) => this.row(conversation)));
    byId("no-conversations").hidden = shown.length > 0;
    byId("no-conversations").textContent =
      this.find.value.trim() === "" ? "None yet." : "Nothing found.";
  }

  row(conversation) {
    const open = conversation.id === this.current?.id;
    const running = Object.values(conversation.messages).some((m) => m.state === "running");
    return el("li", { class: open ? "open" : null, "data-id": conversation.id },
      el("button", { type: "button", class: "title", "aria-current": open ? "page" : null,
                     title: `${conversation.title}, ${when(conversation.updated)}`,
                     onclick: () => this.actions.open(conversation.id) },
         el("span", {}, conversation.title),
         el("small", {}, running ? "writing" : "")),
      iconButton("more", `More for “${conversation.title}”`,
                 (event) => this.openMenu(conversation, event.currentTarget),
                 { "aria-haspopup": "menu" }));
  }

  openMenu(conversation, button) {
    this.chosen = conversation;
    this.menu.showPopover();
    const { left, bottom, top } = button.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = this.menu;
    const below = bottom + offsetHeight < innerHeight;
    this.menu.style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
    this.menu.style.top = `${below ? bottom : top - offsetHeight}px`;
    this.menu.querySelector("button").focus();
  }

  moveInMenu(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const items = [...this.menu.children];
    const at = items.indexOf(document.activeElement);
    items[(at + step + items.length) % items.length].focus();
  }

  rename(conversation) {
    this.actions.reveal();
    this.find.value = "";
    this.render();
    const row = this.list.querySelector(`[data-id="${conversation.id}"]`);
    if (!row) return;
    const field = el("input", { "aria-label": "Name of the conversation", maxlength: "120" });
    field.value = conversation.title;
    let over = false;
    const leave = (keepIt) => {
      if (over) return;
      over = true;
      field.remove();
      if (keepIt && field.value.trim() !== "") this.actions.rename(conversation, field.value.trim());
      this.render();
      this.list.querySelector(`[data-id="${conversation.id}"] .title`)?.focus();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") leave(true);
      else if (event.key === "Escape") leave(false);
      else return;
      event.stopPropagation();
    });
    field.addEventListener("blur", () => leave(true));
    row.replaceChildren(field);
    field.focus();
    field.select();
  }
}
