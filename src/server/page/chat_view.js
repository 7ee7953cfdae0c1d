// The messages of the open conversation, and where the page is scrolled to.
import { pathOf } from "./conversation.js";
import { byId, el } from "./dom.js";
import { ReplyView, UserView } from "./message_view.js";

// The end of a reply is in sight, or nearly.
const kNearEnd = 60;
// Reading Markdown anew more often than that shows nothing more.
const kFrameMillis = 60;

export class ChatView {
  constructor(actions, emptyState) {
    this.actions = actions;
    this.emptyState = emptyState;
    this.scroller = byId("scroller");
    this.list = byId("messages");
    this.toEnd = byId("to-end");
    this.views = new Map();  // message id -> view
    this.conversation = null;
    this.follows = true;
    this.drawn = 0;
    this.timer = null;
    this.phase = undefined;
    this.scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    this.toEnd.addEventListener("click", () => this.scrollToEnd());
  }

  show(conversation) {
    if (this.conversation !== conversation) {
      this.views.clear();
      this.list.replaceChildren();
      this.follows = true;
    }
    this.conversation = conversation;
    this.render();
  }

  // Every message again; what is unchanged keeps its elements.
  render() {
    const path = pathOf(this.conversation);
    const views = new Map();
    for (const message of path) {
      const view = this.views.get(message.id) ?? this.makeView(message);
      views.set(message.id, view);
      // Another version may have come; what is being edited stays.
      if (message.role === "user" && !view.element.querySelector("form")) view.update();
      if (message.role === "assistant") view.update(this.phase);
    }
    this.views = views;
    const elements = path.length === 0 ? [this.emptyState()] :
                     path.map((message) => views.get(message.id).element);
    const same = elements.length === this.list.childElementCount &&
                 elements.every((element, i) => element === this.list.children[i]);
    if (!same) this.list.replaceChildren(...elements);
    this.keepEnd();
  }

  makeView(message) {
    const View = message.role === "user" ? UserView : ReplyView;
    return new View(this.conversation, message, this.actions);
  }

  // A message has grown.
  changed(message) {
    if (!this.views.has(message.id)) {
      this.render();
      return;
    }
    if (this.timer !== null) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.views.get(message.id)?.update(this.phase);
      this.keepEnd();
    }, Math.max(0, this.drawn + kFrameMillis - performance.now()));
    this.drawn = performance.now();
  }

  ended() {
    clearTimeout(this.timer);
    this.timer = null;
    this.render();
  }

  setPhase(phase) {
    this.phase = phase;
    for (const view of this.views.values()) {
      if (view.message.state === "running") view.update(phase);
    }
  }

  editLast() {
    const asked = pathOf(this.conversation).filter((message) => message.role === "user").at(-1);
    if (asked) this.views.get(asked.id).edit();
  }

  noteScroll() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    this.follows = scrollHeight - scrollTop - clientHeight < kNearEnd;
    this.toEnd.hidden = this.follows;
  }

  keepEnd() {
    if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  scrollToEnd() {
    this.follows = true;
    this.toEnd.hidden = true;
    this.keepEnd();
  }
}

const kSuggestions = ["What is the capital of France?", "Write a function that reverses a list, in Python.",
                      "How does a solid state disk work?"];

// What an empty conversation shows.
export function emptyState(facts, ask) {
  const grid = el("div", { class: "emblem", "aria-hidden": "true" });
  for (let i = 0; i < 16; ++i) grid.append(el("i"));
  return el("div", { class: "empty" }, grid,
    el("p", { class: "hello" }, "What would you like to know?"),
    el("p", { class: "facts" }, facts),
    el("ul", { class: "suggestions" }, kSuggestions.map((text) =>
      el("li", {}, el("button", { type: "button", onclick: () => ask(text) }, text)))));
}
