"""Hostile text, and a look at a page that finds out what became of it.

`flaws` goes through what a page shows, and knows nothing of how pages make text harmless.
"""

from __future__ import annotations

import unicodedata

from playwright.sync_api import Page

FAR = "https://evil.example/p.gif"
# What is sent → what the page must say for it.
CORPUS = {
    "script": ("<script>window.hacked = 1</script>", "<script>window.hacked"),
    "element": ("<x-canary onclick=hacked=1>", "<x-canary"),
    "image": (f'<img src="{FAR}" onerror="window.hacked = 1">', "onerror="),
    "svg": ("<svg onload='window.hacked = 1'><a href=javascript:1>x</a>", "onload="),
    "attribute": ("\" autofocus onfocus='hacked=1' x='", "autofocus onfocus="),
    "field": ("</textarea></title><x-canary>", "</textarea></title>"),
    "htmx": (
        '<div hx-get="/inbox/" hx-trigger="load" hx-on:click="window.hacked = 1">x</div>',
        'hx-trigger="load"',
    ),
    "style": ("</style><style>body{display:none}</style>", "body{display:none}"),
    "markdown": (f"![pixel]({FAR}) [approve](javascript:window.hacked=1)", "![pixel]"),
    "template": ("{{ 7|add:7 }}{% debug %}${7*7}", "{{ 7|add:7 }}{% debug %}"),
    "formula": ('=HYPERLINK("https://evil.example/","x")', "=HYPERLINK("),
    "bidi": ("passport\u202efdp.exe", "U+202E"),
    "zero-width": ("pay\u200bpal", "U+200B"),
    "tags": ("ok\U000e0079\U000e0065\U000e0073", "U+E0079"),
    "selector": ("a\ufe0fb\u3164c", "U+3164"),
    "ansi": ("\x1b[2K\x1b[1Aapproved", "U+001B"),
    "host": ("https://em\u0456rates.example/login", "xn--"),
    "mail": ("ceo@northw\u0456nd.example", "U+0456"),
    "entities": ("&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;script&gt;"),
}
END = "the very end"  # what is cut off loses it
ALL = " ".join(text for text, _ in CORPUS.values()) + f" {END}"
SHOWN = [*(shown for _, shown in CORPUS.values()), END]


def short(most: int) -> list[str]:
    """The corpus where no more than so many characters go, one thing after another."""
    return [text for text, _ in CORPUS.values() if len(text) <= most]


def packed(most: int, *, first: str = "bidi") -> str:
    """As much of it as fits into one line, this before all."""
    line = CORPUS[first][0]
    for text in short(most):
        if text not in line and len(line) + len(text) < most:
            line += f" {text}"
    return line


# What a page shows


LOOK = """() => {
  const found = { texts: [], marks: [], clipped: [] };
  const own = (node) => node.nodeValue.trim();
  const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    // What a field holds goes back as it came.
    if (parent.closest("textarea, script, style") || !own(node)) continue;
    let around = parent;
    while (around.parentElement && !/(^|[^\\w-])(td|li|p|dd|pre|div|h\\d|section|main)$/i
      .test(around.tagName)) around = around.parentElement;
    found.texts.push([node.nodeValue, around.textContent]);
  }
  for (const one of document.querySelectorAll("*")) {
    const name = one.tagName.toLowerCase();
    for (const { name: attribute, value } of one.attributes) {
      if (/^on/.test(attribute) || /^\\s*javascript:/i.test(value))
        found.marks.push(`<${name} ${attribute}=${value}>`);
      if (one.closest("svg use")) continue;
      if (["value", "href", "action", "hx-get", "hx-post"].includes(attribute)) continue;
      if (attribute.startsWith("data-keep")) continue;
      found.texts.push([value, value]);
    }
    if (/^(x-canary|iframe|object|embed|base)$/.test(name)) found.marks.push(`<${name}>`);
    const leads = one.getAttribute("href") ?? one.getAttribute("src") ?? one.getAttribute("action");
    if (leads && one.namespaceURI.endsWith("xhtml") && /^(https?:)?\\/\\//i.test(leads)
        && new URL(leads, location).host !== location.host)
      found.marks.push(`<${name}> leads to ${leads}`);
    for (const attribute of ["hx-get", "hx-post", "hx-on:click"]) {
      const to = one.getAttribute(attribute);
      if (to && one.closest("[hx-ignore]")) found.marks.push(`${attribute} in a leaf`);
    }
    // Cut off at an edge, and nothing says so.
    const style = getComputedStyle(one);
    const said = [...one.childNodes].some((node) => node.nodeType === 3 && own(node));
    if (one.closest(".vh")) continue;  // for those who hear the page
    if (!said || one.clientWidth <= 1 || one.clientHeight <= 1) continue;
    if (/hidden|clip/.test(style.overflowX) && one.scrollWidth > one.clientWidth + 1
        && style.textOverflow !== "ellipsis")
      found.clipped.push(one.outerHTML.slice(0, 200));
    if (/hidden|clip/.test(style.overflowY) && one.scrollHeight > one.clientHeight + 4
        && style.webkitLineClamp === "none")
      found.clipped.push(one.outerHTML.slice(0, 200));
  }
  found.texts.push([document.title, document.title]);
  found.hacked = window.hacked ?? null;
  found.gone = getComputedStyle(document.body).display === "none";
  return found;
}"""
BLANK = "\u034f\u115f\u1160\u2800\u3164\uffa0\u180e" + "".join(
    map(chr, range(0xFE00, 0xFE10))
)


def is_hidden(char: str) -> bool:
    """Nothing of it can be seen. A space that does not break may be a page's own."""
    if char in "\n\t\r\xa0":
        return False
    return unicodedata.category(char) in {"Cf", "Cc", "Co", "Cs", "Zl", "Zp"} or (
        char in BLANK
    )


def flaws(page: Page) -> list[str]:
    """What the corpus did to the page, or what of it cannot be seen there."""
    found = page.evaluate(LOOK)
    wrong = [f"made an element: {each}" for each in found["marks"]]
    wrong += [f"cut off: {each}" for each in found["clipped"]]
    if found["hacked"] is not None:
        wrong.append("a script ran")
    if found["gone"]:
        wrong.append("the page is hidden")
    for text, around in found["texts"]:
        if any(map(is_hidden, text)):
            wrong.append(f"hidden: {text[:200]!r}")
        if "\u0456" in text and "U+0456" not in around and "xn--" not in around:
            wrong.append(f"a letter that looks like another: {text[:200]!r}")
    return wrong
