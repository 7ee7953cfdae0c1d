// Markdown as models write it, into a tree of plain objects; render.js makes elements of it.
//
// Blocks: {type: "paragraph", inline}, {type: "heading", level, inline}, {type: "code", language, text,
// open}, {type: "quote", blocks}, {type: "list", ordered, start, loose, items: [{blocks, task}]},
// {type: "table", align, head, rows}, {type: "rule"}. Blocks of the outermost level have `source`, the
// text they came from. HTML is plain text. Unlike CommonMark there are no indented code blocks, no
// underlined headings, and no references: models mean none of these.
import { parseInline } from "./inline.js";

// What is nested deeper is shown flat.
const kDeepest = 12;

const kFence = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const kRule = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const kQuote = /^ {0,3}> ?/;
const kItem = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const kTableLine = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

export function parseMarkdown(text) {
  return parseBlocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

function isBlank(line) {
  return line.trim() === "";
}

function indentOf(line) {
  let columns = 0;
  for (const c of line) {
    if (c === " ") columns += 1;
    else if (c === "\t") columns += 4 - (columns % 4);
    else break;
  }
  return columns;
}

function withoutIndent(line, columns) {
  let taken = 0;
  let i = 0;
  while (taken < columns && (line[i] === " " || line[i] === "\t")) {
    taken += line[i] === "\t" ? 4 - (taken % 4) : 1;
    i += 1;
  }
  return " ".repeat(Math.max(0, taken - columns)) + line.slice(i);
}

function startsItem(line) {
  return kItem.test(line) && !kRule.test(line);
}

// What ends a paragraph without a blank line.
function startsBlock(lines, i) {
  const line = lines[i];
  return kFence.test(line) || kHeading.test(line) || kRule.test(line) || kQuote.test(line) ||
         (startsItem(line) && /^\s*([-*+]|1[.)])[ \t]+\S/.test(line)) || startsTable(lines, i);
}

function startsTable(lines, i) {
  return lines[i].includes("|") && i + 1 < lines.length && lines[i + 1].includes("-") &&
         kTableLine.test(lines[i + 1]) && cells(lines[i]).length === cells(lines[i + 1]).length;
}

function parseBlocks(lines, depth) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) {
      i += 1;
      continue;
    }
    const [block, next] = parseBlock(lines, i, depth);
    if (depth === 0) block.source = lines.slice(i, next).join("\n");
    blocks.push(block);
    i = next;
  }
  return blocks;
}

// [block, the line after it]
function parseBlock(lines, i, depth) {
  const line = lines[i];
  let match = kFence.exec(line);
  if (match !== null) return parseCode(lines, i, match);
  match = kHeading.exec(line);
  if (match !== null) {
    return [{ type: "heading", level: match[1].length, inline: parseInline(match[2] ?? "") }, i + 1];
  }
  if (kRule.test(line)) return [{ type: "rule" }, i + 1];
  if (depth < kDeepest && kQuote.test(line)) return parseQuote(lines, i, depth);
  if (depth < kDeepest && startsItem(line)) return parseList(lines, i, depth);
  if (startsTable(lines, i)) return parseTable(lines, i);
  let end = i + 1;
  while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines, end)) end += 1;
  const text = lines.slice(i, end).map((part) => part.trimStart()).join("\n").trimEnd();
  return [{ type: "paragraph", inline: parseInline(text) }, end];
}

function parseCode(lines, i, [, indent, fence, info]) {
  const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`);
  let end = i + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  const code = lines.slice(i + 1, end).map((line) => withoutIndent(line, indent.length));
  return [{ type: "code", language: info.trim().split(/\s+/)[0], text: code.join("\n"),
            open: end >= lines.length }, Math.min(end + 1, lines.length)];
}

function parseQuote(lines, i, depth) {
  const inner = [];
  let end = i;
  for (; end < lines.length && !isBlank(lines[end]); ++end) {
    if (kQuote.test(lines[end])) inner.push(lines[end].replace(kQuote, ""));
    else if (startsBlock(lines, end)) break;
    else inner.push(lines[end]);  // a paragraph goes on
  }
  return [{ type: "quote", blocks: parseBlocks(inner, depth + 1) }, end];
}

function parseList(lines, i, depth) {
  const [, , firstMarker] = kItem.exec(lines[i]);
  const kind = firstMarker.at(-1);
  const ordered = kind === "." || kind === ")";
  const list = { type: "list", ordered, start: ordered ? parseInt(firstMarker, 10) : 1, loose: false,
                 items: [] };
  while (i < lines.length && startsItem(lines[i])) {
    const [whole, , marker, space] = kItem.exec(lines[i]);
    if (marker.at(-1) !== kind) break;
    const indent = indentOf(lines[i]);
    const content = indent + marker.length + (space.length > 4 || space === "" ? 1 : space.length);
    const inner = [lines[i].slice(space.length > 4 ? whole.length - space.length + 1 : whole.length)];
    let end = i + 1;
    for (; end < lines.length; ++end) {
      const line = lines[end];
      if (isBlank(line)) {
        inner.push("");
        continue;
      }
      const afterBlank = isBlank(lines[end - 1]);
      const columns = indentOf(line);
      // Models often indent less than the marker is wide.
      const nested = columns >= (startsItem(line) ? indent + 2 : content);
      if (!nested && (afterBlank || startsItem(line) || startsBlock(lines, end))) break;
      inner.push(withoutIndent(line, Math.min(content, columns)));
    }
    let blanks = 0;
    while (inner.length > 1 && isBlank(inner.at(-1))) {
      inner.pop();
      blanks += 1;
    }
    const goesOn = end < lines.length && startsItem(lines[end]) &&
                   kItem.exec(lines[end])[2].at(-1) === kind;
    const task = /^\[([ xX])\][ \t]+/.exec(inner[0]);
    if (task !== null) inner[0] = inner[0].slice(task[0].length);
    const blocks = parseBlocks(inner, depth + 1);
    const parted = inner.some((line, n) => isBlank(line) && n > 0) && blocks.length > 1 &&
                   blocks.filter((block) => block.type === "paragraph").length > 1;
    list.loose ||= (blanks > 0 && goesOn) || parted;
    list.items.push({ blocks, task: task === null ? null : task[1] !== " " });
    i = end;
  }
  return [list, i];
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function parseTable(lines, i) {
  const align = cells(lines[i + 1]).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : null;
  });
  const row = (line) => {
    const texts = cells(line);
    return align.map((_, column) => parseInline(texts[column] ?? ""));
  };
  const table = { type: "table", align, head: row(lines[i]), rows: [] };
  let end = i + 2;
  while (end < lines.length && !isBlank(lines[end]) && lines[end].includes("|")) {
    table.rows.push(row(lines[end]));
    end += 1;
  }
  return [table, end];
}
