// Elements of a Markdown tree. Text only ever becomes text.
import { copyButton, el } from "./dom.js";
import { highlight } from "./highlight.js";
import { parseMarkdown } from "./markdown.js";

function inlineNodes(inline) {
  return inline.map((node) => {
    if (typeof node === "string") return node;
    switch (node.type) {
      case "code":
        return el("code", {}, node.text);
      case "break":
        return el("br");
      case "link":
        return el("a", { href: node.href, title: node.title, target: "_blank",
                         rel: "noopener noreferrer" }, inlineNodes(node.children));
      default:  // em, strong, del
        return el(node.type, {}, inlineNodes(node.children));
    }
  });
}

function codeBlock(block) {
  const code = el("code", {}, highlight(block.language, block.text).map(
    ([kind, text]) => kind === null ? text : el("span", { class: `code-${kind}` }, text)));
  return el("figure", { class: "code" },
    el("figcaption", {}, el("span", {}, block.language || "text"),
       copyButton("Copy the code", () => block.text)),
    // A long line is scrolled by keyboard, too.
    el("pre", { tabindex: "0", role: "region", "aria-label": `Code, ${block.language || "text"}` }, code));
}

function listItem(item, loose) {
  const li = el("li", item.task === null ? {} : { class: "task" });
  if (item.task !== null) {
    li.append(el("input", { type: "checkbox", disabled: true, checked: item.task,
                            "aria-label": item.task ? "done" : "to do" }), " ");
  }
  for (const block of item.blocks) {
    if (block.type === "paragraph" && !loose) li.append(...inlineNodes(block.inline));
    else li.append(blockElement(block));
  }
  return li;
}

function tableElement(block) {
  const cell = (tag, inline, column) =>
    el(tag, { class: block.align[column] && `align-${block.align[column]}`,
              scope: tag === "th" ? "col" : null }, inlineNodes(inline));
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    el("table", {},
      el("thead", {}, el("tr", {}, block.head.map((inline, i) => cell("th", inline, i)))),
      el("tbody", {}, block.rows.map(
        (row) => el("tr", {}, row.map((inline, i) => cell("td", inline, i)))))));
}

function blockElement(block) {
  switch (block.type) {
    case "heading":
      // The page's own headings are the first two levels.
      return el(`h${Math.min(block.level + 2, 6)}`, { class: `level-${block.level}` },
                inlineNodes(block.inline));
    case "code":
      return codeBlock(block);
    case "quote":
      return el("blockquote", {}, block.blocks.map(blockElement));
    case "list":
      return el(block.ordered ? "ol" : "ul",
                { start: block.ordered && block.start !== 1 ? block.start : null },
                block.items.map((item) => listItem(item, block.loose)));
    case "table":
      return tableElement(block);
    case "rule":
      return el("hr");
    default:
      return el("p", {}, inlineNodes(block.inline));
  }
}

// Shows a text that grows. What is complete stays as it is, so that a selection in it survives.
export class MarkdownView {
  constructor() {
    this.element = el("div", { class: "markdown" });
    this.sources = [];
  }

  // `onBlock` is told the text of each block that a following one has completed.
  update(text, onBlock = () => {}) {
    const blocks = parseMarkdown(text);
    let same = 0;
    while (same < blocks.length && this.sources[same] === blocks[same].source) same += 1;
    while (this.element.childElementCount > same) this.element.lastChild.remove();
    for (let i = same; i < blocks.length; ++i) this.element.append(blockElement(blocks[i]));
    for (let i = Math.max(0, this.sources.length - 1); i < blocks.length - 1; ++i) {
      onBlock(this.element.children[i].textContent);
    }
    this.sources = blocks.map((block) => block.source);
  }
}
