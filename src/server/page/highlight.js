// Light colouring of code: comments, strings, numbers and keywords; no grammar.

const kWords = {
  c: "alignas auto bool break case catch char class concept const consteval constexpr continue default " +
     "delete do double else enum explicit export extern false final float for fn friend func function " +
     "go goto if impl import in inline int interface let long loop match mod module move mut namespace " +
     "new noexcept nullptr null operator override package private protected pub public range ref return " +
     "self short signed sizeof static struct super switch template this throw throws trait true try " +
     "type typedef typename typeof union unsigned use using var virtual void volatile where while yield " +
     "async await extends implements instanceof undefined of defer chan map select std",
  script: "False None True and as assert async await break case class continue def del do done elif else " +
          "end esac except export fi finally for from function global if import in is lambda local nil " +
          "nonlocal not or pass raise return self then try unless until while with yield echo exit set",
  sql: "add all alter and as asc begin by case commit create cross default delete desc distinct drop " +
       "else end exists foreign from full group having if in index inner insert into is join key left " +
       "like limit not null on or order outer primary references right rollback select set table then " +
       "union unique update values view when where with",
};
const kComments = { c: /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y, script: /#[^\n]*/y,
                    sql: /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y, data: /#[^\n]*/y };
const kStrings = {
  c: /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`(?:[^`\\]|\\[\s\S])*`?/y,
  script: /"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/y,
};
const kNumber = /\b(?:0[xX][\da-fA-F_']+|0[bB][01_']+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w*/y;
const kName = /[A-Za-z_$][\w$]*/y;
const kSpace = /\s+|[^\w\s"'`#/$-]+/y;

const kFamilies = {
  c: "c cc cpp c++ cxx h hpp cs csharp cuda d dart go java javascript js jsx json jsonc kotlin kt mjs php " +
     "rs rust scala swift ts tsx typescript zig css scss glsl",
  script: "bash sh shell zsh console fish python py ruby rb perl pl r julia jl elixir ex make makefile " +
          "dockerfile cmake powershell ps1 lua nim",
  sql: "sql mysql postgresql psql sqlite",
  data: "yaml yml toml ini conf",
};
const kFamilyOf = new Map(Object.entries(kFamilies).flatMap(
  ([family, names]) => names.split(" ").map((name) => [name, family])));
const kWordsOf = new Map(Object.entries(kWords).map(([family, words]) =>
  [family, new Set(words.split(" "))]));

// A list of [kind, text] whose texts joined are `text`; kind is null, "comment", "string", "number"
// or "keyword".
export function highlight(language, text) {
  const family = kFamilyOf.get(language.toLowerCase());
  if (family === undefined) return [[null, text]];
  const words = kWordsOf.get(family);
  const rules = [["comment", kComments[family]], ["string", kStrings[family] ?? kStrings.script],
                 ["number", kNumber], ["name", kName], [null, kSpace]];
  const pieces = [];
  const add = (kind, piece) => {
    if (pieces.length > 0 && pieces.at(-1)[0] === kind) pieces.at(-1)[1] += piece;
    else pieces.push([kind, piece]);
  };
  for (let i = 0; i < text.length;) {
    let kind = null;
    let piece = text[i];
    for (const [name, rule] of rules) {
      rule.lastIndex = i;
      const match = rule.exec(text);
      if (match === null) continue;
      piece = match[0];
      kind = name;
      break;
    }
    if (kind === "name") {
      const word = family === "sql" ? piece.toLowerCase() : piece;
      kind = words?.has(word) ? "keyword" : null;
    }
    add(kind, piece);
    i += piece.length;
  }
  return pieces;
}
