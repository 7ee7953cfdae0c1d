// Puts the parts together.
import { fetchCapabilities, fetchStatus } from "./api.js";
import { ChatView, emptyState } from "./chat_view.js";
import { Composer } from "./composer.js";
import { addMessage, isEmptyReply, newConversation, removeMessage, settle, showBranch } from "./conversation.js";
import { announce, byId, icon, toast } from "./dom.js";
import { liveRate } from "./message_view.js";
import { Panels } from "./panels.js";
import { PoolView } from "./pool_view.js";
import { Replies } from "./replies.js";
import { ServerWatch } from "./server_watch.js";
import { applyTheme, openKeyDialog, openSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { ConversationStore, keep, recall } from "./store.js";

class App {
  async start() {
    for (const place of document.querySelectorAll("[data-icon]")) {
      place.prepend(icon(place.dataset.icon));
    }
    applyTheme(recall("theme", "auto"));
    this.channel = new BroadcastChannel("slotstream");
    this.channel.onmessage = ({ data }) => this.changedElsewhere(data);
    this.conversations = new Map();
    this.keyRefused = false;
    this.liveMessage = null;
    this.replies = new Replies({
      changed: (conversation, message) => this.onPiece(conversation, message),
      save: (conversation) => this.save(conversation),
      ended: (conversation, message) => this.onEnd(conversation, message),
    });
    this.chat = new ChatView({
      show: (message) => this.showVersion(message),
      resend: (message, text) => this.ask(text, message.images, message.parent),
      again: (message) => this.again(message),
      askKey: () => this.askKey(),
    }, () => emptyState(this.factsText(), (text) => this.ask(text, [])));
    this.composer = new Composer({ send: (text, images) => this.ask(text, images),
                                   stop: () => this.stop(), editLast: () => this.chat.editLast() });
    this.sidebar = new Sidebar({
      open: (id) => this.open(this.conversations.get(id)),
      rename: (conversation, title) => this.rename(conversation, title),
      remove: (conversation) => this.remove(conversation),
      reveal: () => this.panels.isOpen("sidebar") || this.panels.toggle("sidebar"),
    });
    this.panels = new Panels();
    this.pool = new PoolView();
    this.watch = new ServerWatch({ onStatus: (status) => this.onStatus(status),
                                   onState: (state) => this.onState(state) });
    this.bindControls();
    await this.load();
    this.watch.ask();
    this.composer.focus();
  }

  async load() {
    this.store = await ConversationStore.open();
    for (const conversation of await this.store.all()) {
      if (settle(conversation)) this.store.put(conversation);
      this.conversations.set(conversation.id, conversation);
    }
    if (!this.store.lasting) toast("This browser window keeps nothing: conversations end with the page.");
    const last = this.conversations.get(recall("open", null));
    if (last) this.open(last);
    else this.openNew();
  }

  bindControls() {
    const click = (id, run) => byId(id).addEventListener("click", run);
    click("new", () => this.openNew());
    click("open-settings", () => this.editSettings());
    click("open-shortcuts", () => byId("shortcuts").showModal());
    click("banner-action", () => (this.watch.state === "key" ? this.askKey() : this.watch.poke()));
    click("title-menu", (event) => this.sidebar.openMenu(this.current, event.currentTarget));
    const theme = byId("theme");
    theme.value = recall("theme", "auto");
    theme.addEventListener("change", () => {
      applyTheme(theme.value);
      keep("theme", theme.value);
      this.pool.draw();
    });
    byId("think").addEventListener("change", (event) => this.applySettings(
      { ...this.current.settings, think: event.target.value }));
    document.addEventListener("keydown", (event) => this.onKey(event));
    window.addEventListener("pagehide", () => {
      for (const { conversation } of this.replies.running.values()) this.save(conversation);
    });
  }

  onKey(event) {
    if (document.querySelector("dialog[open], :popover-open")) return;
    if (event.key === "Escape") {
      if (this.panels.closeOverlays()) return;
      this.stop();
      return;
    }
    if (!event.altKey || !event.shiftKey || event.ctrlKey || event.metaKey) return;
    const run = {
      KeyN: () => this.openNew(),
      KeyM: () => this.composer.focus(),
      KeyC: () => this.panels.toggle("sidebar"),
      KeyP: () => this.panels.toggle("pool"),
      KeyS: () => this.editSettings(),
      KeyR: () => this.again(this.current.messages[this.current.leaf]),
      KeyH: () => byId("shortcuts").showModal(),
    }[event.code];
    if (!run) return;
    event.preventDefault();
    run();
  }

  open(conversation) {
    this.current = conversation;
    keep("open", conversation.id);
    this.chat.show(conversation);
    this.refresh();
    this.panels.closeOverlays();
    this.composer.focus();
  }

  openNew() {
    this.open(newConversation(recall("settings", { system: "", think: "off" })));
  }

  // What shows the list or the open conversation's facts.
  refresh() {
    const list = [...this.conversations.values()].sort((a, b) => b.updated - a.updated);
    this.sidebar.update(list, this.current);
    byId("title").textContent = this.current.title;
    byId("title-menu").hidden = !this.conversations.has(this.current.id);
    document.title = this.conversations.has(this.current.id)
      ? `${this.current.title} – slotstream` : "slotstream";
    byId("think").value = this.current.settings.think ?? "off";
    this.composer.setRunning(this.replies.isRunning(this.current));
  }

  async save(conversation) {
    if (!this.conversations.has(conversation.id)) return;
    try {
      await this.store.put(conversation);
      this.channel.postMessage(conversation.id);
    } catch (error) {
      toast(`The browser could not keep this conversation: ${error.message}`);
    }
  }

  // Another page of this browser has saved or deleted a conversation.
  async changedElsewhere(id) {
    if (this.replies.running.has(id)) return;
    const conversation = await this.store.get(id);
    if (conversation) this.conversations.set(id, conversation);
    else this.conversations.delete(id);
    if (this.current.id === id && conversation) {
      this.current = conversation;
      this.chat.show(conversation);
    }
    this.refresh();
  }

  ask(text, images, parent = this.current.leaf) {
    const conversation = this.current;
    if (this.replies.isRunning(conversation)) return;
    const question = addMessage(conversation, parent, { role: "user", content: text, images });
    this.conversations.set(conversation.id, conversation);
    this.chat.scrollToEnd();
    this.reply(conversation, question);
  }

  reply(conversation, question) {
    this.replies.ask(conversation, question, this.watch.status?.model ?? "");
    announce("The reply is being written.");
    this.chat.setPhase(this.phaseText());
    this.refresh();
    this.watch.setBusy(true);
    this.watch.poke();
    this.composer.focus();
  }

  again(message) {
    if (!message || this.replies.isRunning(this.current)) return;
    const question = message.role === "user" ? message : this.current.messages[message.parent];
    if (isEmptyReply(message)) removeMessage(this.current, message);
    this.reply(this.current, question);
  }

  stop() {
    this.replies.stop(this.current);
  }

  showVersion(message) {
    if (this.replies.isRunning(this.current)) return;
    showBranch(this.current, message.id);
    this.save(this.current);
    this.chat.render();
    this.composer.focus();
  }

  onPiece(conversation, message) {
    this.liveMessage = message;
    if (conversation === this.current) this.chat.changed(message);
  }

  onEnd(conversation, message) {
    if (conversation === this.current) this.chat.ended();
    if (message.errorKind === "key") this.askKey();
    if (this.replies.running.size === 0) this.liveMessage = null;
    this.watch.setBusy(this.replies.running.size > 0);
    this.watch.poke();
    this.refresh();
  }

  rename(conversation, title) {
    conversation.title = title;
    conversation.named = true;
    this.save(conversation);
    this.refresh();
  }

  remove(conversation) {
    this.replies.stop(conversation);
    this.conversations.delete(conversation.id);
    this.store.remove(conversation.id).then(() => this.channel.postMessage(conversation.id));
    if (conversation === this.current) this.openNew();
    else this.refresh();
    announce("Deleted.");
    toast(`Deleted “${conversation.title}”.`, "Undo", () => {
      this.conversations.set(conversation.id, conversation);
      this.save(conversation);
      this.open(conversation);
    });
  }

  editSettings() {
    openSettings(this.current.settings, (settings) => this.applySettings(settings));
  }

  // For the open conversation and those that begin from now on.
  applySettings(settings) {
    this.current.settings = settings;
    keep("settings", settings);
    this.save(this.current);
    this.refresh();
  }

  askKey() {
    openKeyDialog(this.keyRefused, async () => {
      try {
        await fetchStatus();
        this.keyRefused = false;
        this.watch.poke();
      } catch (error) {
        this.keyRefused = error.kind === "key";
        if (this.keyRefused) this.askKey();
      }
    });
  }

  onStatus(status) {
    const live = this.liveMessage;
    this.pool.update(status, live ? liveRate(live.stats) : null);
    byId("model").textContent = status.model;
    const facts = document.querySelector(".facts");
    if (facts && facts.textContent !== this.factsText()) facts.textContent = this.factsText();
    if (this.replies.running.size > 0) this.chat.setPhase(this.phaseText());
  }

  async onState(state) {
    const texts = {
      loading: "The model is loading. What you send now waits until it is ready.",
      gone: "The server does not answer. The page keeps trying.",
      key: "This server wants a key.",
    };
    byId("banner").hidden = state === "ok";
    byId("banner-text").textContent = texts[state] ?? "";
    byId("banner-action").textContent = state === "key" ? "Give the key" : "Try now";
    byId("banner-action").hidden = state === "loading";
    document.body.dataset.server = state;
    if (state === "key") this.askKey();
    if (state !== "ok") return;
    try {
      this.composer.setSees((await fetchCapabilities(this.watch.status.model)).includes("vision"));
    } catch {
      // Asked again when the server comes back.
    }
  }

  factsText() {
    const status = this.watch?.status;
    if (!status?.plan) return "";
    const count = (n) => n.toLocaleString("en");
    return `${status.model}, a context of ${count(status.context_window)} tokens, ` +
           `${count(status.plan.slots)} of ${count(status.plan.all_slots)} experts fit in memory`;
  }

  // What a reply without a first word waits for.
  phaseText() {
    const { state, status } = this.watch;
    if (state === "loading") return "The model is loading; the message waits for it";
    if (state === "gone") return "The server does not answer";
    if (!status) return "Waiting for the server";
    if (status.waiting > 0) return "Waiting for its turn";
    const { done, total } = status.prefill;
    if (status.running > 0 && done < total) {
      return done === 0 ? `Reading the prompt, ${total.toLocaleString("en")} tokens`
        : `Reading the prompt: ${done.toLocaleString("en")} of ${total.toLocaleString("en")} tokens`;
    }
    return "Waiting for the first word";
  }
}

new App().start();
