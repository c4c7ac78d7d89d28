// A program between fences, whose lines may still arrive: each is added once, however many there are.

import { element } from "./inline.js";

export const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^`]*)$/;

// Lines of a part: browsers lay out no other part again, and skip those that are out of sight.
const PART = 200;

export class Code {
  // From the line that opens it.
  constructor(line) {
    const [, marks, language] = FENCE.exec(line);
    this.marks = marks;
    this.indent = line.search(/\S/);
    this.pre = element("pre");
    this.part();
    const copy = element("button", "copy-code", "Copy");
    copy.type = "button";
    this.node = element("figure", "code", element("figcaption", "", element("span", "", language.trim().slice(0, 40)), copy), this.pre);
  }

  part() {
    this.lines = 0;
    [this.whole, this.rest] = [document.createTextNode(""), document.createTextNode("")];
    this.pre.append(element("code", "", this.whole, this.rest));
  }

  closes(line) {
    const mark = line.trim();
    return mark.startsWith(this.marks) && mark === mark[0].repeat(mark.length);
  }

  // Adds whole lines.
  add(lines) {
    for (let at = 0; at < lines.length; ) {
      if (this.lines >= PART) {
        // The end of the part's last line.
        this.rest.data = "\n";
        this.part();
      }
      const some = lines.slice(at, at + PART - this.lines);
      const text = some.map(line => this.unindented(line)).join("\n");
      this.whole.appendData(this.lines > 0 ? `\n${text}` : text);
      this.lines += some.length;
      at += some.length;
    }
  }

  // Shows the beginning of a line.
  begin(line) {
    const shown = line === "" || this.closes(line) ? "" : this.unindented(line);
    this.rest.data = shown && this.lines > 0 ? `\n${shown}` : shown;
  }

  // The fence's own indent is not the program's.
  unindented(line) {
    return line.slice(Math.min(this.indent, Math.max(line.search(/\S/), 0)));
  }
}
