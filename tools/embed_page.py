#!/usr/bin/env python3
"""Puts the web page together: one HTML document without outside parts, as C++ source.

    embed_page.py PAGE_DIRECTORY OUTPUT.cc [OUTPUT.html]

index.html names style.css and app.js; these and every module that app.js imports become part of the
document, and the content security policy allows them alone, by their hashes. Modules may only say
`import { a, b } from "./x.js";` and `export` before a declaration; all of them share one scope, so no
name may be declared twice at the top of two modules (the browser would refuse the script).
"""

import base64
import gzip
import hashlib
import pathlib
import re
import sys

IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.M)
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:const|let|class|function\*?) (\w+)", re.M)


def bundle(directory, name, done, declared):
    """The text of a module after the texts of all that it imports and that are not in `done`."""
    if name in done:
        return ""
    done.add(name)
    source = (directory / name).read_text()
    text = "".join(bundle(directory, imported, done, declared)
                   for imported in IMPORT.findall(source))
    own = IMPORT.sub("", source)
    for found in DECLARED.findall(own):
        if found in declared:
            sys.exit(f"{directory / name}: {found} is declared in {declared[found]} too")
        declared[found] = name
    own = re.sub(r"^export ", "", own, flags=re.M)
    if left := re.search(r"^(import|export)\b.*", own, re.M):
        sys.exit(f"{directory / name}: a form that is not understood here: {left[0]}")
    # Comments are for readers of the sources.
    own = re.sub(r"^ *//.*\n", "", own, flags=re.M)
    return text + own.strip() + "\n"


def integrity(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def assemble(directory):
    """(document, content security policy)"""
    script = "\n" + bundle(directory, "app.js", set(), {})
    style = "\n" + (directory / "style.css").read_text()
    for text in (script, style):
        if ends := re.search(r"</(script|style)|<!--", text, re.I):
            sys.exit(f"{ends[0]} would end the script or style that it stands in")
    page = (directory / "index.html").read_text()
    for tag, text, whole in (
            ("style", style, '<link rel="stylesheet" href="style.css">'),
            ("script", script, '<script type="module" src="app.js"></script>')):
        if page.count(whole) != 1:
            sys.exit(f"index.html does not say {whole} once")
        opening = "<style>" if tag == "style" else '<script type="module">'
        page = page.replace(whole, f"{opening}{text}</{tag}>")
    policy = "; ".join((
        "default-src 'none'", f"script-src {integrity(script)}", f"style-src {integrity(style)}",
        "img-src data: blob:", "connect-src 'self'", "base-uri 'none'", "form-action 'none'",
        "frame-ancestors 'none'",
        # Nothing may turn text into markup, whatever the page's own code does.
        "require-trusted-types-for 'script'", "trusted-types 'none'"))
    return page, policy


def array(name, data):
    rows = (",".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32))
    return f"constexpr unsigned char {name}[] = {{\n" + ",\n".join(rows) + "};\n"


def main():
    directory, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    page, policy = assemble(directory)
    html = page.encode()
    etag = '"' + hashlib.sha256((page + policy).encode()).hexdigest()[:16] + '"'
    # The time is left out: the same sources give the same bytes.
    packed = gzip.compress(html, 9, mtime=0)
    output.write_text(f"""// Written by tools/embed_page.py.
#include "server/web_page.h"

namespace slotstream::server {{
namespace {{

{array("kHtml", html)}
{array("kGzip", packed)}
template <size_t N>
std::string_view View(const unsigned char (&bytes)[N]) {{
  return {{reinterpret_cast<const char*>(bytes), N}};
}}

}}  // namespace

const WebPage& EmbeddedPage() {{
  static const WebPage page{{View(kHtml), View(kGzip), R"({etag})",
                            R"({policy})"}};
  return page;
}}

}}  // namespace slotstream::server
""")
    if len(sys.argv) > 3:
        pathlib.Path(sys.argv[3]).write_bytes(html)


if __name__ == "__main__":
    main()
