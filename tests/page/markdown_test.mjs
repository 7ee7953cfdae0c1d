// Markdown into trees. Run by node --test; nothing here touches a page.
import assert from "node:assert/strict";
import test from "node:test";

import { highlight } from "../../src/server/page/highlight.js";
import { parseInline, safeHref } from "../../src/server/page/inline.js";
import { parseMarkdown } from "../../src/server/page/markdown.js";

// A tree as short text: what a reader of the page would see, in brackets what it is.
function show(node) {
  if (typeof node === "string") return node;
  if (Array.isArray(node)) return node.map(show).join("");
  switch (node.type) {
    case "code": return `<code${node.language ? ` ${node.language}` : ""}>${node.text}</code>`;
    case "break": return "<br>";
    case "link": return `<a ${node.href}>${show(node.children)}</a>`;
    case "heading": return `<h${node.level}>${show(node.inline)}</h>`;
    case "quote": return `<quote>${show(node.blocks)}</quote>`;
    case "rule": return "<hr>";
    case "paragraph": return `<p>${show(node.inline)}</p>`;
    case "list": return `<${node.ordered ? `ol ${node.start}` : "ul"}>${node.items.map((item) =>
      `<li${item.task === null ? "" : item.task ? " x" : " o"}>${show(item.blocks)}</li>`).join("")}</list>`;
    case "table": return `<table>${[node.head, ...node.rows].map((row) =>
      row.map(show).join("|")).join("/")}</table>`;
    default: return `<${node.type}>${show(node.children)}</${node.type}>`;
  }
}
const inline = (text) => show(parseInline(text));
const blocks = (text) => show(parseMarkdown(text));

const kInline = [
  ["plain", "plain"],
  ["*a* _b_ **c** __d__ ~~e~~", "<em>a</em> <em>b</em> <strong>c</strong> <strong>d</strong> <del>e</del>"],
  ["***both***", "<em><strong>both</strong></em>"],
  ["**bold *and* more**", "<strong>bold <em>and</em> more</strong>"],
  ["snake_case_name 2 * 3 * 4", "snake_case_name 2 * 3 * 4"],
  ["**open", "**open"],
  ["*a **b* c**", "<em>a <em><em>b</em> c</em></em>"],  // as CommonMark's algorithm has it
  ["~one~ and ~~~three~~~", "~one~ and ~~~three~~~"],
  ["`a < b` ``x ` y``", "<code>a < b</code> <code>x ` y</code>"],
  ["`*not em*` `open", "<code>*not em*</code> `open"],
  ["\\*no\\* \\\\", "*no* \\"],
  ["one\ntwo", "one<br>two"],
  ["a &amp; b &lt;i&gt; &#8364; &nosuch; &constructor;", "a & b <i> € &nosuch; &constructor;"],
  ["[text](https://a.example/x \"t\")", "<a https://a.example/x>text</a>"],
  ["[**b** [x]](<https://a.example/a b>)", "<a https://a.example/a%20b><strong>b</strong> [x]</a>"],
  ["[p](https://a.example/w_(x)) end", "<a https://a.example/w_(x)>p</a> end"],
  ["![cat](https://a.example/c.png)", "<a https://a.example/c.png>cat</a>"],
  ["see https://a.example/x. (http://b.example/y)",
   "see <a https://a.example/x>https://a.example/x</a>. (<a http://b.example/y>http://b.example/y</a>)"],
  ["<https://a.example> <me@a.example>",
   "<a https://a.example/>https://a.example</a> <a mailto:me@a.example>me@a.example</a>"],
  // What must stay text.
  ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
  ["</script><script>x</script>", "</script><script>x</script>"],
  ["[x](javascript:alert(1))", "[x](javascript:alert(1))"],
  ["[x](JaVaScRiPt:alert(1))", "[x](JaVaScRiPt:alert(1))"],
  ["[x](&#106;avascript:alert(1))", "[x](javascript:alert(1))"],
  ["[x](data:text/html,x)", "[x](data:text/html,x)"],
  ["[x](/relative)", "[x](/relative)"],
  ["<javascript:alert(1)>", "<javascript:alert(1)>"],
];

const kBlocks = [
  ["a\n\nb", "<p>a</p><p>b</p>"],
  ["# One\n### Three ###\n#no", "<h1>One</h><h3>Three</h><p>#no</p>"],
  ["a\n# b\nc", "<p>a</p><h1>b</h><p>c</p>"],
  ["---\n***", "<hr><hr>"],
  ["```js x\na\n\n  b\n```\nc", "<code js>a\n\n  b</code><p>c</p>"],
  ["```\n# no\n", "<code># no\n</code>"],
  ["~~~~\n```\n~~~\n~~~~", "<code>```\n~~~</code>"],
  ["> a\n> > b\nc", "<quote><p>a</p><quote><p>b<br>c</p></quote></quote>"],
  ["- a\n- b\n  - c\n- d", "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></list></li><li><p>d</p></li></list>"],
  ["3. a\n4. b", "<ol 3><li><p>a</p></li><li><p>b</p></li></list>"],
  ["1. a\n  - under\n2. b", "<ol 1><li><p>a</p><ul><li><p>under</p></li></list></li><li><p>b</p></li></list>"],
  ["1. a\n\n   ```py\n   x = 1\n   ```\n\n2. b",
   "<ol 1><li><p>a</p><code py>x = 1</code></li><li><p>b</p></li></list>"],
  ["- [ ] no\n- [x] yes", "<ul><li o><p>no</p></li><li x><p>yes</p></li></list>"],
  ["- a\n* b", "<ul><li><p>a</p></li></list><ul><li><p>b</p></li></list>"],
  ["text\n- a", "<p>text</p><ul><li><p>a</p></li></list>"],
  ["in 1995. b\n1996. c", "<p>in 1995. b<br>1996. c</p>"],
  ["- a\n\ntext", "<ul><li><p>a</p></li></list><p>text</p>"],
  ["| a | b |\n|---|:-:|\n| 1 | x\\|y |\n| 2 |\n\nend", "<table>a|b/1|x|y/2|</table><p>end</p>"],
  ["a | b\nno table", "<p>a | b<br>no table</p>"],
];

test("inline", () => {
  for (const [text, expected] of kInline) assert.equal(inline(text), expected, text);
});

test("blocks", () => {
  for (const [text, expected] of kBlocks) assert.equal(blocks(text), expected, JSON.stringify(text));
});

test("a list with paragraphs is loose", () => {
  assert.equal(parseMarkdown("- a\n\n- b")[0].loose, true);
  assert.equal(parseMarkdown("- a\n- b\n  - c")[0].loose, false);
});

test("a fence that is still open says so", () => {
  assert.equal(parseMarkdown("```py\nx")[0].open, true);
  assert.equal(parseMarkdown("```py\nx\n```")[0].open, false);
});

test("what is complete keeps its source while the text grows", () => {
  const text = "# T\n\nsome *text*\n\n- a\n- b\n\n```c\nint x;\n```\n\nend\n";
  for (let end = 1; end < text.length; ++end) {
    const [before, after] = [text.slice(0, end), text].map(parseMarkdown);
    for (let i = 0; i < before.length - 1; ++i) assert.equal(before[i].source, after[i].source);
  }
});

// Every text is shown whole, whatever it is made of: no letter is lost or made up.
test("letters of random markup all come through", () => {
  let state = 1;
  const random = (n) => {
    state = (state * 48271) % 2147483647;
    return state % n;
  };
  const pieces = ["*", "**", "_", "`", "```", "~~", "[", "](", ")", "<", ">", "&", "\\", "\n", "\n\n", "- ",
                  "1. ", "> ", "#", "|", "---", "    ", "!", "x", "y", "word ", "http://", "\t"];
  const letters = (text) => text.replace(/[^a-z]/g, "").replaceAll("http", "");
  const seen = (node) => typeof node === "string" ? node : Array.isArray(node) ? node.map(seen).join("")
    : [node.language, node.text, ...[node.inline, node.children, node.blocks, node.items, node.head, node.rows]
        .filter(Boolean).map(seen)].filter(Boolean).join("");
  for (let round = 0; round < 3000; ++round) {
    const text = Array.from({ length: 1 + random(25) }, () => pieces[random(pieces.length)]).join("");
    // A table's surplus cells are dropped, a fence's info beyond its first word, a list's task mark.
    if (text.includes("|") || text.includes("```") || /\[x\]/.test(text)) {
      parseMarkdown(text);
      continue;
    }
    const shown = seen(parseMarkdown(text));
    // A link's address is not shown where it has another text.
    if (/\]\(/.test(text)) continue;
    assert.equal(letters(shown), letters(text), JSON.stringify(text));
  }
});

test("hostile lengths take little time", () => {
  const start = performance.now();
  for (const piece of ["[", "*a ", "`", "``` ", "> ", "- ", "**", "_a", "<", "&", "|", "~~a ", "![", "[](", "1. ",
                       "*a **b "]) {
    parseMarkdown(piece.repeat(20000));
    parseMarkdown(`${piece}\n`.repeat(5000));
  }
  // By the square it would be minutes.
  assert.ok(performance.now() - start < 20000);
});

test("addresses", () => {
  for (const good of ["http://a.example", "https://a.example/x?y#z", "mailto:a@b.example"]) {
    assert.notEqual(safeHref(good), null, good);
  }
  for (const bad of ["javascript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "vbscript:x",
                     "data:text/html,x", "blob:x", "file:///etc/passwd", "//a.example", "x", ""]) {
    assert.equal(safeHref(bad), null, bad);
  }
});

test("colours of code lose nothing", () => {
  const samples = ["int x = 0x1F; // one\n\"s\\\"t\" 'c", "# c\ndef f():\n  return '''a\nb''' + 1.5e3",
                   "SELECT a FROM t -- x", "key: 'v' # c", "/* open", "`t ${x}`", "\u{1F600} €"];
  for (const language of ["cpp", "python", "sql", "yaml", "nosuch", "", "constructor"]) {
    for (const text of samples) {
      assert.equal(highlight(language, text).map(([, piece]) => piece).join(""), text, language);
    }
  }
  assert.deepEqual(highlight("py", "return 1"), [["keyword", "return"], [null, " "], ["number", "1"]]);
});
