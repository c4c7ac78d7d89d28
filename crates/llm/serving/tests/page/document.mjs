// As much of a document as the renderer needs, and HTML to compare with.

class Node {
  childNodes = [];
  parent = null;
  get firstChild() { return this.childNodes[0]; }
  append(...nodes) { for (const node of nodes) this.insert(this.childNodes.length, node); }
  insert(at, node) {
    const child = node instanceof Node ? node : new Text(String(node));
    child.remove();
    child.parent = this;
    this.childNodes.splice(at, 0, child);
  }
  before(node) {
    if (node instanceof Node) node.remove();
    this.parent.insert(this.parent.childNodes.indexOf(this), node);
  }
  remove() {
    if (!this.parent) return;
    this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1);
    this.parent = null;
  }
}

class Text extends Node {
  constructor(data) { super(); this.data = data; }
  appendData(data) { this.data += data; }
  get html() { return this.data.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"); }
}

class Element extends Node {
  constructor(name) { super(); this.name = name; }
  get inner() { return this.childNodes.map(node => node.html).join(""); }
  get html() {
    const kept = ["href", "start", "className"].filter(key => this[key] !== undefined);
    const attributes = kept.map(key => ` ${key}="${this[key]}"`).join("");
    return `<${this.name}${attributes}>${["br", "hr"].includes(this.name) ? "" : `${this.inner}</${this.name}>`}`;
  }
}

globalThis.document = { createElement: name => new Element(name), createTextNode: text => new Text(text) };
