// What the browser keeps: conversations in IndexedDB, small things in localStorage.

const kDatabase = "slotstream";
const kConversations = "conversations";

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

// Conversations by id. Where the browser keeps nothing (a private window), they live as long as the
// page: `lasting` says which.
export class ConversationStore {
  static async open() {
    const store = new ConversationStore();
    store.memory = new Map();
    store.lasting = false;
    try {
      const request = indexedDB.open(kDatabase, 1);
      request.onupgradeneeded = () =>
        request.result.createObjectStore(kConversations, { keyPath: "id" });
      store.database = await settled(request);
      store.lasting = true;
    } catch {
      return store;
    }
    // Else the browser may throw them away when its disk is full.
    navigator.storage?.persist?.().catch(() => {});
    return store;
  }

  table(mode) {
    return this.database.transaction(kConversations, mode).objectStore(kConversations);
  }

  async all() {
    if (!this.lasting) return [...this.memory.values()];
    return settled(this.table("readonly").getAll());
  }

  async get(id) {
    if (!this.lasting) return this.memory.get(id);
    return settled(this.table("readonly").get(id));
  }

  async put(conversation) {
    if (!this.lasting) this.memory.set(conversation.id, conversation);
    else await settled(this.table("readwrite").put(conversation));
  }

  async remove(id) {
    if (!this.lasting) this.memory.delete(id);
    else await settled(this.table("readwrite").delete(id));
  }
}

// A small value; `fallback` where nothing readable is kept.
export function recall(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`slotstream.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`slotstream.${name}`, JSON.stringify(value));
  } catch {
    // It is only a convenience.
  }
}

// The key of the server is kept until the tab is closed.
export function recallKey() {
  try {
    return sessionStorage.getItem("slotstream.key") ?? "";
  } catch {
    return "";
  }
}

export function keepKey(key) {
  try {
    sessionStorage.setItem("slotstream.key", key);
  } catch {
    // Then it is asked for again.
  }
}
