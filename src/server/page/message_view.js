// One message on the page.
import { alternativesOf } from "./conversation.js";
import { announce, copyButton, el, icon, iconButton } from "./dom.js";
import { MarkdownView } from "./render.js";

function number(value) {
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}

function rate(tokens, seconds) {
  return seconds > 0 ? `${number(tokens / seconds)} tokens/s` : null;
}

// "8 tokens · 353 tokens/s · prompt 21 tokens in 0.1 s"
export function statsText(stats) {
  if (!stats) return "";
  const parts = [`${stats.exact ? "" : "about "}${number(stats.reply)} tokens`];
  // The first token belongs to the prompt's time.
  parts.push(rate(stats.reply - 1, stats.replySeconds));
  if (stats.exact) parts.push(`prompt ${number(stats.prompt)} tokens in ${number(stats.promptSeconds)} s`);
  return parts.filter(Boolean).join(" · ");
}

// "1.2 tokens/s" of a reply that is under way.
export function liveRate(stats) {
  if (!stats?.first || stats.pieces < 2) return null;
  return (stats.pieces - 1) / ((stats.last - stats.first) / 1000);
}

// ‹ 2/3 › where a message has alternatives.
function branchSwitch(conversation, message, actions) {
  const all = alternativesOf(conversation, message);
  if (all.length < 2) return null;
  const at = all.indexOf(message);
  const step = (name, label, to) =>
    iconButton(name, label, () => actions.show(all[to]), { disabled: !all[to] });
  return el("span", { class: "branches", role: "group", "aria-label": "Versions" },
            step("left", "Earlier version", at - 1), el("span", {}, `${at + 1}/${all.length}`),
            step("right", "Later version", at + 1));
}

export class UserView {
  constructor(conversation, message, actions) {
    Object.assign(this, { conversation, message, actions });
    this.element = el("article", { class: "message user" });
    this.update();
  }

  update() {
    const { message } = this;
    this.element.replaceChildren(
      el("h2", { class: "visually-hidden" }, "You"),
      el("div", { class: "bubble" },
         message.images.map((image) => el("img", { src: `data:${image.type};base64,${image.data}`,
                                                   alt: image.name })),
         el("div", { class: "plain" }, message.content)),
      el("footer", {}, branchSwitch(this.conversation, message, this.actions),
         iconButton("edit", "Edit this message", () => this.edit()),
         copyButton("Copy this message", () => message.content)));
  }

  edit() {
    if (this.element.querySelector("form")) return;
    const field = el("textarea", { "aria-label": "Edit the message", rows: "3" });
    field.value = this.message.content;
    const leave = () => {
      this.update();
      this.element.querySelector("[aria-label='Edit this message']").focus();
    };
    const send = (event) => {
      event.preventDefault();
      if (field.value.trim() !== "") this.actions.resend(this.message, field.value.trim());
    };
    const form = el("form", { class: "edit", onsubmit: send, onkeydown: (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        leave();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing &&
                 event.target === field) {
        send(event);
      }
    } }, field,
      el("div", { class: "row" },
         el("span", { class: "hint" }, "The conversation goes on from here; the other one stays."),
         el("button", { type: "button", onclick: leave }, "Cancel"),
         el("button", { type: "submit", class: "primary" }, "Send")));
    this.element.querySelector(".bubble").replaceWith(form);
    this.element.querySelector("footer").remove();
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

export class ReplyView {
  constructor(conversation, message, actions) {
    Object.assign(this, { conversation, message, actions });
    this.markdown = new MarkdownView();
    this.summary = el("summary");
    this.thinking = el("div", { class: "plain" });
    this.details = el("details", { class: "thinking" }, this.summary, this.thinking);
    this.phase = el("p", { class: "phase" });
    this.problem = el("div", { class: "problem" });
    this.footer = el("footer");
    this.element = el("article", { class: "message reply" },
                      el("h2", { class: "visually-hidden" }, "Reply"), this.details,
                      this.markdown.element, this.phase, this.problem, this.footer);
    this.heard = message.state !== "running";
    this.shownState = null;
    this.update();
  }

  // `phase`: what a reply without text is waiting for.
  update(phase = "Waiting for the server") {
    const { message } = this;
    const running = message.state === "running";
    this.element.setAttribute("aria-busy", String(running));
    this.details.hidden = message.thinking === "";
    if (message.thinking !== "") this.updateThinking();
    this.markdown.update(message.content, this.heard ? undefined : announce);
    this.phase.hidden = !running || message.content !== "" || message.thinking !== "";
    if (!this.phase.hidden && this.phase.dataset.text !== phase) {
      this.phase.dataset.text = phase;
      this.phase.replaceChildren(el("span", { class: "beat", "aria-hidden": "true" },
                                    el("i"), el("i"), el("i")), phase);
    }
    if (running) {
      const speed = liveRate(message.stats);
      if (this.shownState !== "running") {
        this.speed = el("span", { class: "stats" });
        this.footer.replaceChildren(this.speed);
      }
      this.speed.textContent = speed === null ? "" :
        `${number(message.stats.pieces)} tokens · ${number(speed)} tokens/s`;
    } else {
      this.finish();
    }
    this.shownState = message.state;
  }

  updateThinking() {
    const { message } = this;
    const now = message.thinkingSince;
    const seconds = now ? (performance.now() - now) / 1000 : message.thoughtSeconds;
    const label = now ? "Thinking" : "Thought";
    this.summary.textContent = seconds === undefined ? label : `${label} for ${number(seconds)} s`;
    this.details.classList.toggle("live", Boolean(now));
    if (this.thinking.textContent !== message.thinking) this.thinking.textContent = message.thinking;
  }

  finish() {
    const { message, actions } = this;
    const again = (label) => el("button", { type: "button", onclick: () => actions.again(message) },
                                icon("again"), label);
    this.problem.hidden = message.error === null;
    if (message.error !== null) {
      const key = message.errorKind === "key" &&
                  el("button", { type: "button", onclick: actions.askKey }, "Give the key");
      this.problem.replaceChildren(el("p", {}, message.error), key || "", again("Try again"));
    }
    const note = message.state === "stopped" ? "stopped" :
                 message.stats?.reason === "length" ? "ended at the limit of its length" : "";
    this.footer.replaceChildren(...[
      branchSwitch(this.conversation, message, actions),
      iconButton("again", "Write this reply again", () => actions.again(message)),
      message.content && copyButton("Copy this reply", () => message.content),
      el("span", { class: "stats" }, [statsText(message.stats), note].filter(Boolean).join(" · ")),
    ].filter(Boolean));
    if (this.heard) return;
    this.heard = true;
    const last = this.markdown.element.lastElementChild?.textContent ?? "";
    announce(message.error ?? (message.state === "stopped" ? "Stopped." : `${last} End of the reply.`));
  }
}
