// Markdown inside a paragraph: emphasis, code, links.
//
// Gives a list of strings and nodes: {type: "em" | "strong" | "del", children}, {type: "link", href,
// title, children}, {type: "code", text}, {type: "break"}. Markup of HTML is plain text.

// The end of a link's text is looked for so far, lest "[[[[..." takes time by its square.
const kLongestLink = 1000;
const kEntities = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©",
                    hellip: "…", mdash: "—", ndash: "–", times: "×", rarr: "→", larr: "←" };

// The address, or null for one that a reply may not link to.
export function safeHref(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}

export function parseInline(text, inLink = false) {
  const parts = [];  // strings, nodes and runs of delimiters {mark, count, opens, closes}
  let plain = "";
  const add = (part) => {
    if (plain !== "") parts.push(plain);
    plain = "";
    parts.push(part);
  };
  const absentTicks = new Set();  // lengths of runs of backticks that have no partner any more
  for (let i = 0; i < text.length;) {
    const c = text[i];
    let found = null;
    if (c === "\\" && i + 1 < text.length) {
      if (text[i + 1] === "\n") {
        add({ type: "break" });
        i += 2;
        continue;
      }
      if (/[!-/:-@[-`{-~]/.test(text[i + 1])) {
        plain += text[i + 1];
        i += 2;
        continue;
      }
    } else if (c === "\n") {
      // Models break lines where they mean it.
      plain = plain.trimEnd();
      add({ type: "break" });
      i += 1;
      continue;
    } else if (c === "`") {
      found = codeSpan(text, i, absentTicks);
    } else if (c === "*" || c === "_" || c === "~") {
      const run = delimiterRun(text, i);
      if (c === "~" && run.count !== 2) {
        plain += c.repeat(run.count);
      } else {
        add(run);
      }
      i += run.count;
      continue;
    } else if (c === "&") {
      found = entity(text, i);
    } else if (!inLink && (c === "[" || (c === "!" && text[i + 1] === "["))) {
      found = link(text, i);
    } else if (!inLink && c === "<") {
      found = angleLink(text, i);
    } else if (!inLink && c === "h" && !/\w/.test(text[i - 1] ?? "")) {
      found = bareLink(text, i);
    }
    if (found === null) {
      plain += c;
      i += 1;
      // A run of backticks without a partner is text as a whole.
      while (c === "`" && text[i] === "`") plain += text[i++];
    } else {
      if (typeof found.node === "string") plain += found.node;
      else add(found.node);
      i = found.end;
    }
  }
  if (plain !== "") parts.push(plain);
  return pairDelimiters(parts);
}

function codeSpan(text, start, absentTicks) {
  let count = 1;
  while (text[start + count] === "`") count += 1;
  if (absentTicks.has(count)) return null;
  const ticks = /`+/g;
  ticks.lastIndex = start + count;
  for (let match = ticks.exec(text); match !== null; match = ticks.exec(text)) {
    if (match[0].length !== count) continue;
    let code = text.slice(start + count, match.index).replaceAll("\n", " ");
    if (/^ .*[^ ].* $/.test(code) || /^ [^ ] $/.test(code)) code = code.slice(1, -1);
    return { node: { type: "code", text: code }, end: match.index + count };
  }
  absentTicks.add(count);
  return null;
}

// CommonMark's rules of what may open and close emphasis.
function delimiterRun(text, start) {
  const mark = text[start];
  let count = 1;
  while (text[start + count] === mark) count += 1;
  const before = text[start - 1] ?? " ";
  const after = text[start + count] ?? " ";
  const isSpace = (s) => /\s/.test(s);
  const isPunctuation = (s) => /[\p{P}\p{S}]/u.test(s);
  const left = !isSpace(after) && (!isPunctuation(after) || isSpace(before) || isPunctuation(before));
  const right = !isSpace(before) && (!isPunctuation(before) || isSpace(after) || isPunctuation(after));
  const inWord = mark === "_";
  return { mark, count, opens: left && (!inWord || !right || isPunctuation(before)),
           closes: right && (!inWord || !left || isPunctuation(after)) };
}

function entity(text, start) {
  const match = /^&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{2,8}));/.exec(text.slice(start, start + 12));
  if (match === null) return null;
  const code = match[1] ? Number(match[1]) : match[2] ? parseInt(match[2], 16) : null;
  if (code === null) {
    if (!Object.hasOwn(kEntities, match[3])) return null;
    return { node: kEntities[match[3]], end: start + match[0].length };
  }
  if (code === 0 || code > 0x10ffff) return null;
  return { node: String.fromCodePoint(code), end: start + match[0].length };
}

// [text](address "title"); a picture becomes a link to it, for the page fetches nothing.
function link(text, start) {
  const picture = text[start] === "!";
  const open = start + (picture ? 1 : 0);
  let depth = 0;
  let close = -1;
  for (let i = open; i < text.length && i < open + kLongestLink; ++i) {
    if (text[i] === "\\") i += 1;
    else if (text[i] === "[") depth += 1;
    else if (text[i] === "]" && --depth === 0) {
      close = i;
      break;
    }
  }
  if (close < 0 || text[close + 1] !== "(") return null;
  const rest = text.slice(close + 1, close + 1 + 4 * kLongestLink);
  const match = /^\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"([^"]*)"|'([^']*)'))?\s*\)/
    .exec(rest);
  if (match === null) return null;
  const href = safeHref(match[1] ?? match[2]);
  if (href === null) return null;
  const label = text.slice(open + 1, close);
  const children = picture ? [label || "picture"] : parseInline(label, true);
  return { node: { type: "link", href, title: match[3] ?? match[4] ?? null, children },
           end: close + 1 + match[0].length };
}

function angleLink(text, start) {
  const match = /^<([a-zA-Z][\w+.-]*:[^\s<>]*|[\w.+-]+@[\w.-]+)>/
    .exec(text.slice(start, start + kLongestLink));
  if (match === null) return null;
  const href = safeHref(match[1].includes(":") ? match[1] : `mailto:${match[1]}`);
  if (href === null) return null;
  return { node: { type: "link", href, title: null, children: [match[1]] },
           end: start + match[0].length };
}

function bareLink(text, start) {
  const match = /^https?:\/\/[^\s<>"`]+/.exec(text.slice(start, start + kLongestLink));
  if (match === null) return null;
  let address = match[0].replace(/[.,;:!?'*_~\]]+$/, "");
  const count = (c) => address.split(c).length;
  while (address.endsWith(")") && count(")") > count("(")) address = address.slice(0, -1);
  const href = safeHref(address);
  if (href === null) return null;
  return { node: { type: "link", href, title: null, children: [address] },
           end: start + address.length };
}

// Turns pairs of delimiter runs into nodes, after CommonMark's "process emphasis".
function pairDelimiters(parts) {
  const bottoms = new Map();  // below this no opener was found for such a closer
  for (let closer = 0; closer < parts.length; ++closer) {
    const run = parts[closer];
    if (!run.closes || run.count === 0) continue;
    const kind = `${run.mark}${run.opens}${run.count % 3}`;
    const bottom = bottoms.get(kind) ?? 0;
    let opener = closer - 1;
    for (; opener >= bottom; --opener) {
      const other = parts[opener];
      if (other.mark !== run.mark || !other.opens || other.count === 0) continue;
      const threes = (other.closes || run.opens) && (other.count + run.count) % 3 === 0 &&
                     (other.count % 3 !== 0 || run.count % 3 !== 0);
      if (!threes) break;
    }
    if (opener < bottom) {
      bottoms.set(kind, closer);
      continue;
    }
    const used = Math.min(run.count, parts[opener].count, 2);
    const type = run.mark === "~" ? "del" : used === 2 ? "strong" : "em";
    parts[opener].count -= used;
    run.count -= used;
    const children = parts.splice(opener + 1, closer - opener - 1).flatMap(asText);
    parts.splice(opener + 1, 0, { type, children });
    // What lay between opener and closer has become one part.
    for (const [key, place] of bottoms) bottoms.set(key, Math.min(place, opener + 1));
    closer = run.count > 0 ? opener + 1 : opener + 2;  // a run that is left may close once more
  }
  return parts.flatMap(asText);
}

// A run of delimiters that found no partner is text.
function asText(part) {
  if (part.mark === undefined) return [part];
  return part.count > 0 ? [part.mark.repeat(part.count)] : [];
}
