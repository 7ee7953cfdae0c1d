// Elements without markup: everything the page shows is made here, from names and plain text.

// el("button", { class: "x", type: "button", onclick: f }, "text", child, ...). Children that are null
// or false are left out. Attributes that would parse markup or run text do not exist here.
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined &&
                                                      child !== false));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

// Outlines on a square of 24.
const kIcons = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  keyboard: "M3 7h18v10H3zM7 10.5h.01M11 10.5h.01M15 10.5h.01M8 14h8",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.5l4.5 4.5L19 7.5",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M20 12a8 8 0 1 1-2.3-5.6M20 4v5h-5",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  slots: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z",
  close: "M6 6l12 12M18 6L6 18",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7l-8.4 8.4a1.7 1.7 0 0 1-2.4-2.4L14 7.5",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", kIcons[name]);
  svg.append(path);
  return svg;
}

// A button that shows only an icon; `label` is its name for everyone.
export function iconButton(name, label, onclick, attributes = {}) {
  return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label,
                        onclick, ...attributes }, icon(name));
}

// Clipboards are for secure pages; a server in the local network has none.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = el("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    field.value = text;
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return copied;
  }
}

// A copy button that says for a moment whether it worked.
export function copyButton(label, textOf) {
  const button = iconButton("copy", label, async () => {
    const copied = await copyText(textOf());
    button.replaceChildren(icon(copied ? "check" : "close"));
    announce(copied ? "Copied" : "The browser does not let this page copy");
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  });
  return button;
}

// Says something to a screen reader, when it has finished what it is saying.
export function announce(text) {
  const live = byId("announcer");
  // What was said long ago only fills the page.
  while (live.childElementCount > 20) live.firstChild.remove();
  live.append(el("p", {}, text));
}

// A passing note, with an action where one is given.
export function toast(text, action = null, run = null) {
  const note = el("div", { class: "toast" }, el("span", {}, text));
  const leave = setTimeout(() => note.remove(), 9000);
  if (action) {
    note.append(el("button", { type: "button", onclick: () => {
      clearTimeout(leave);
      note.remove();
      run();
    } }, action));
  }
  byId("toasts").append(note);
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
