// Inline Markdown: code, emphasis, links. Nodes are made one by one, and text enters them only as text: nothing that
// a model writes is parsed as HTML. Each character is looked at a bounded number of times.

export function element(name, className = "", ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// What may begin something. All before it is text.
const SPECIAL = /[\\`*_~[<\n&$]|https?:\/\//g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
// Only these addresses become links.
const LINK = /\[((?:[^[\]\\\n]|\\.)*)\]\(\s*<?(https?:\/\/[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"\n]*")?\s*\)/y;
const ADDRESS = /https?:\/\/[^\s<>"`]+/y;
const ENTITY = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(amp|lt|gt|quot|apos|nbsp));/y;
const CHARACTERS = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
// A formula of a line: the dollars are next to it, so that prices are none.
const FORMULA = /\$(?!\s)[^$\n]+(?<!\s)\$(?!\d)/y;
const FORMULAS = { "\\(": "\\)", "\\[": "\\]", $$: "$$" };
const MARKS = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };
// A paragraph longer than this is shown as it is, and so is the rest of one with that many elements: browsers take long
// for the lines of such.
const LONGEST = 20000;
const MOST_ELEMENTS = 500;

// Appends the nodes of a text to `parent`.
export function inline(parent, text, inLink = false) {
  if (text.length > LONGEST) return void parent.append(text);
  // Elements that wait for their mark, the innermost last. No mark waits twice, so there are few.
  const open = [];
  const target = () => open.at(-1)?.node ?? parent;
  const missing = new Set();
  let at = 0, made = 0, plain = "";
  const flush = () => {
    if (plain) target().append(plain);
    plain = "";
  };
  const add = (node, end) => {
    flush();
    target().append(node);
    made += 1;
    at = end;
  };
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const begin = SPECIAL.exec(text)?.index ?? text.length;
    plain += text.slice(at, begin);
    at = begin;
    const c = text[at];
    if (c === undefined) break;
    if (made > MOST_ELEMENTS) {
      plain += text.slice(at);
      break;
    }
    const formula = c === "\\" || c === "$" ? formulaAt(text, at, missing) : 0;
    if (formula) {
      add(element("span", "formula", text.slice(at, formula)), formula);
    } else if (c === "$") {
      plain += c;
      at += 1;
    } else if (c === "&") {
      const entity = entityAt(text, at);
      plain += entity?.text ?? c;
      at = entity?.end ?? at + 1;
    } else if (c === "\\" && text[at + 1] === "\n") {
      at += 1;
    } else if (c === "\\" && PUNCTUATION.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else if (c === "\n") {
      plain = plain.trimEnd();
      add(element("br"), at + 1);
    } else if (c === "`") {
      const marks = run(text, at);
      const end = missing.has(marks) ? -1 : closing(text, at + marks, marks);
      if (end < 0) {
        missing.add(marks);
        plain += text.slice(at, at + marks);
        at += marks;
      } else {
        add(element("code", "", trimmed(text.slice(at + marks, end))), end + marks);
      }
    } else if (c === "[" || c === "<" || c === "h") {
      const link = inLink ? null : linkAt(text, at);
      if (link) {
        // An image is its address.
        if (link.isNamed && plain.endsWith("!")) plain = plain.slice(0, -1);
        add(link.node, link.end);
      } else {
        plain += c;
        at += 1;
      }
    } else {
      emphasis(c);
    }
  }
  flush();
  while (open.length) unwrap(open.pop());

  // Opens or closes an element at a mark, or takes the mark as text.
  function emphasis(c) {
    const inner = open.at(-1)?.mark;
    const isTriple = text[at + 1] === c && text[at + 2] === c;
    // Of three marks, the innermost one closes first.
    const mark = isTriple && inner?.[0] === c ? inner : text[at + 1] === c ? c + c : c;
    const before = text[at - 1] ?? " ", after = text[at + mark.length] ?? " ";
    const inWord = c === "_" && /\w/.test(before) && /\w/.test(after);
    const waiting = open.findIndex(one => one.mark === mark);
    if (!MARKS[mark] || inWord) {
      plain += mark;
    } else if (waiting >= 0 && !/\s/.test(before)) {
      flush();
      while (open.length > waiting + 1) unwrap(open.pop());
      open.pop();
    } else if (waiting < 0 && !/\s/.test(after)) {
      flush();
      const node = element(MARKS[mark]);
      target().append(node);
      open.push({ mark, node });
      made += 1;
    } else {
      plain += mark;
    }
    at += mark.length;
  }
}

// An element whose mark never closes is its mark and its children.
function unwrap({ mark, node }) {
  node.before(mark);
  while (node.firstChild) node.before(node.firstChild);
  node.remove();
}

function linkAt(text, at) {
  LINK.lastIndex = at;
  const named = text[at] === "[" && LINK.exec(text);
  if (named) return { node: anchor(named[2], named[1]), end: LINK.lastIndex, isNamed: true };
  ADDRESS.lastIndex = text[at] === "<" ? at + 1 : at;
  const bare = text[at] !== "[" && ADDRESS.exec(text);
  if (!bare) return null;
  if (text[at] === "<") return text[ADDRESS.lastIndex] === ">" && { node: anchor(bare[0]), end: ADDRESS.lastIndex + 1 };
  // Punctuation after an address belongs to the sentence.
  let length = bare[0].length;
  while (/[.,;:!?'*_~)\]]/.test(bare[0][length - 1])) length -= 1;
  return { node: anchor(bare[0].slice(0, length)), end: at + length };
}

// Where a formula ends that begins there, or 0: it is shown as it is written.
function formulaAt(text, at, missing) {
  const close = FORMULAS[text.slice(at, at + 2)];
  if (!close) {
    FORMULA.lastIndex = at;
    return FORMULA.test(text) ? FORMULA.lastIndex : 0;
  }
  const end = missing.has(close) ? -1 : text.indexOf(close, at + 2);
  if (end < 0) missing.add(close);
  return end < 0 ? 0 : end + 2;
}

function entityAt(text, at) {
  ENTITY.lastIndex = at;
  const [, decimal, hexadecimal, name] = ENTITY.exec(text) ?? [];
  if (name) return { text: CHARACTERS[name], end: ENTITY.lastIndex };
  const number = decimal ? Number(decimal) : Number.parseInt(hexadecimal, 16);
  const isCharacter = number > 0 && number <= 0x10ffff && !(number >= 0xd800 && number < 0xe000);
  return isCharacter ? { text: String.fromCodePoint(number), end: ENTITY.lastIndex } : null;
}

function anchor(address, name = "") {
  const node = element("a");
  node.href = address;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  if (name) inline(node, name, true);
  else node.append(address);
  return node;
}

// The length of a run of backticks.
function run(text, at) {
  let end = at;
  while (text[end] === "`") end += 1;
  return end - at;
}

// Where a run of exactly that length begins.
function closing(text, from, length) {
  for (let at = text.indexOf("`", from); at >= 0; at = text.indexOf("`", at)) {
    const found = run(text, at);
    if (found === length) return at;
    at += found;
  }
  return -1;
}

function trimmed(code) {
  const isPadded = code.startsWith(" ") && code.endsWith(" ") && code.trim();
  return (isPadded ? code.slice(1, -1) : code).replaceAll("\n", " ");
}
