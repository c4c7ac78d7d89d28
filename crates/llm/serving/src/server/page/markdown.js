// Markdown blocks, while they arrive: all blocks but the last are final, and only the last one is built again.

import { Code, FENCE } from "./code.js";
import { element, inline } from "./inline.js";

const HEADING = /^ {0,3}(#{1,6})(?:\s|$)/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ *\|? *:?-+:? *(\| *:?-+:? *)*\|? *$/;
// Blocks of a section: browsers skip those that are out of sight.
const SECTION = 50;
// Blocks in blocks, and lines of a block. What is more becomes text, or another block.
const DEEPEST = 8;
const MOST_LINES = 400;

const isBlank = line => line.trim() === "";
const isRule = line => {
  const marks = line.replace(/\s/g, "");
  return marks.length > 2 && /^[-*_]/.test(marks) && marks === marks[0].repeat(marks.length);
};
const isTable = (lines, i) => lines[i].includes("|") && lines[i + 1]?.includes("|") && DIVIDER.test(lines[i + 1]);

// A text that grows, as nodes of `parent`.
export class Markdown {
  constructor(parent) {
    this.parent = parent;
    this.section = null;
    this.tail = "";
    // The nodes that are built again.
    this.open = [];
    // A program that has begun.
    this.code = null;
  }

  add(node) {
    if (!this.section || this.section.childNodes.length >= SECTION) {
      if (this.section) this.section.className = "full";
      this.section = element("section");
      this.parent.append(this.section);
    }
    this.section.append(node);
    return node;
  }

  append(text) {
    this.tail += text.replaceAll("\r", "");
    if (this.code && !this.endsCode()) return;
    const lines = this.tail.split("\n");
    const blocks = split(lines);
    // The line that is not complete may yet turn out to belong to the block before.
    let last = Math.max(blocks.length - 1, 0);
    while (last > 0 && blocks[last].start >= lines.length - 1) last -= 1;
    this.open.forEach(node => node.remove());
    const start = blocks[last]?.start ?? lines.length - 1;
    if (blocks[last]?.isOpenFence && start < lines.length - 1) {
      blocks.slice(0, last).forEach(block => this.add(block.build()));
      this.open = [];
      this.beginCode(lines.slice(start));
    } else {
      this.open = blocks.map(block => this.add(block.build())).slice(last);
      this.tail = lines.slice(start).join("\n");
    }
  }

  beginCode(lines) {
    this.code = new Code(lines[0]);
    this.add(this.code.node);
    this.tail = lines.slice(1).join("\n");
    this.endsCode();
  }

  // Adds the lines that have arrived to the program. Returns whether it ends among them.
  endsCode() {
    const lines = this.tail.split("\n");
    const rest = lines.pop();
    const end = lines.findIndex(line => this.code.closes(line));
    this.code.add(end < 0 ? lines : lines.slice(0, end));
    this.code.begin(end < 0 ? rest : "");
    this.tail = end < 0 ? rest : [...lines.slice(end + 1), rest].join("\n");
    if (end >= 0) this.code = null;
    return end >= 0;
  }
}

// The nodes of a whole text.
function fill(parent, lines, depth) {
  for (const block of split(lines, depth)) parent.append(block.build());
  return parent;
}

// Splits lines into blocks: where each begins, and how it is built.
function split(lines, depth = 0) {
  const blocks = [];
  for (let i = 0; i < lines.length; ) {
    if (isBlank(lines[i])) {
      i += 1;
      continue;
    }
    const block = depth < DEEPEST ? blockAt(lines, i, depth) : paragraph(lines, i);
    blocks.push({ start: i, ...block });
    i = block.end;
  }
  return blocks;
}

function blockAt(lines, i, depth) {
  const line = lines[i];
  const heading = HEADING.exec(line);
  if (FENCE.test(line)) return fence(lines, i);
  if (heading) return { end: i + 1, build: () => titled(heading[1].length, line.slice(heading[0].length)) };
  if (isRule(line)) return { end: i + 1, build: () => element("hr") };
  if (QUOTE.test(line)) return quote(lines, i, depth);
  if (ITEM.test(line)) return list(lines, i, depth);
  if (isTable(lines, i)) return table(lines, i);
  return paragraph(lines, i);
}

function titled(level, text) {
  let title = text.trim();
  while (title.endsWith("#")) title = title.slice(0, -1);
  // The page's own title is the first level.
  const node = element(`h${Math.min(level + 1, 6)}`);
  inline(node, title.trim());
  return node;
}

function paragraph(lines, start) {
  let end = start + 1;
  const goesOn = i => i < lines.length && i - start < MOST_LINES && !isBlank(lines[i]) && !interrupts(lines, i);
  while (goesOn(end)) end += 1;
  const build = () => {
    const node = element("p");
    node.dir = "auto";
    inline(node, lines.slice(start, end).join("\n").trim());
    return node;
  };
  return { end, build };
}

function interrupts(lines, i) {
  const line = lines[i];
  return FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || isRule(line) || isTable(lines, i);
}

function fence(lines, start) {
  const code = new Code(lines[start]);
  let end = start + 1;
  while (end < lines.length && !code.closes(lines[end])) end += 1;
  const build = () => {
    code.add(lines.slice(start + 1, end));
    return code.node;
  };
  const isOpenFence = end === lines.length;
  return { end: isOpenFence ? end : end + 1, isOpenFence, build };
}

function quote(lines, start, depth) {
  let end = start;
  while (end < lines.length && end - start < MOST_LINES && QUOTE.test(lines[end])) end += 1;
  const inner = () => lines.slice(start, end).map(line => line.replace(QUOTE, ""));
  return { end, build: () => fill(element("blockquote"), inner(), depth + 1) };
}

// Items of one list have one kind of mark. Lines that are indented by two more than the mark belong to the item.
function list(lines, start, depth) {
  const [, , first] = ITEM.exec(lines[start]);
  const kind = first.at(-1);
  const items = [];
  let end = start, inner = 0, margin = 0;
  for (let i = start; i < lines.length; i += 1) {
    const item = ITEM.exec(lines[i]);
    const indent = lines[i].search(/\S/);
    const isInner = items.length > 0 && indent >= inner;
    if (isBlank(lines[i])) {
      items.at(-1).push("");
      continue;
    }
    if (item && !isInner && item[2].at(-1) === kind && !isRule(lines[i])) {
      if (i - start >= MOST_LINES) break;
      inner = item[1].length + 2;
      margin = item[1].length + item[2].length + Math.min(Math.max(item[3].length, 1), 4);
      items.push([lines[i].slice(margin)]);
    } else if (isInner) {
      items.at(-1).push(lines[i].slice(Math.min(indent, margin)));
    } else if (!isBlank(lines[i - 1]) && !interrupts(lines, i)) {
      items.at(-1).push(lines[i].trimStart());
    } else {
      break;
    }
    end = i + 1;
  }
  const build = () => {
    const node = element(/\d/.test(first) ? "ol" : "ul");
    node.dir = "auto";
    if (/\d/.test(first)) node.start = Number.parseInt(first, 10);
    node.append(...items.map(item => fill(element("li"), task(item), depth + 1)));
    return node;
  };
  return { end, build };
}

// `[ ]` and `[x]` are boxes.
function task(lines) {
  const box = /^\[([ xX])\] /.exec(lines[0]);
  return box ? [(box[1] === " " ? "☐ " : "☑ ") + lines[0].slice(4), ...lines.slice(1)] : lines;
}

// A table. After many rows, the others are text.
function table(lines, start) {
  let end = start + 2;
  while (end < lines.length && end - start < MOST_LINES && lines[end].includes("|")) end += 1;
  const build = () => {
    const columns = cells(lines[start]).length;
    const sides = cells(lines[start + 1]).map(side => (side.endsWith(":") ? (side.startsWith(":") ? "center" : "right") : ""));
    const row = (name, line) => {
      const texts = cells(line).slice(0, columns);
      return element("tr", "", ...texts.map((text, i) => {
        const node = element(name, sides[i] ?? "");
        node.dir = "auto";
        inline(node, text);
        return node;
      }));
    };
    const body = lines.slice(start + 2, end).map(line => row("td", line));
    const node = element("table", "", element("thead", "", row("th", lines[start])), element("tbody", "", ...body));
    return element("div", "table", node);
  };
  return { end, build };
}

// The cells of a row. A bar after a backslash or in code is no border. A row has a bounded number of them.
function cells(line) {
  const parts = line.trim().replace(/^\|/, "").match(/(?:\\.|`[^`]*`|[^|])+|\|/g) ?? [];
  const texts = [""];
  for (const part of parts.slice(0, 200)) {
    if (part === "|") texts.push("");
    else texts[texts.length - 1] += part.replaceAll("\\|", "|");
  }
  if (texts.length > 1 && isBlank(texts.at(-1))) texts.pop();
  return texts.map(text => text.trim());
}
