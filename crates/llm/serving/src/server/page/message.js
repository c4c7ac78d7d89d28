// A message on the page.

import { element } from "./inline.js";
import { Markdown } from "./markdown.js";

// Characters that are drawn at once, so that the page stays quick whatever arrives.
const STEP = 20000;

// Shows a message. `drawn` is called whenever there is more of it.
export class MessageView {
  constructor(message, drawn) {
    this.message = message;
    this.drawn = drawn;
    this.node = element("article", `message ${message.role}`);
    this.node.setAttribute("aria-label", message.role === "user" ? "You" : "Model");
    this.timer = null;
    this.draw();
  }

  // Builds all of it again.
  draw() {
    const { role, content } = this.message;
    clearTimeout(this.timer);
    this.timer = null;
    this.thoughts = element("div", "thoughts");
    this.reasoning = element("details", "reasoning", element("summary", "", "Reasoning"), this.thoughts);
    this.body = element("div", "body");
    this.calls = element("div", "calls");
    this.note = element("p", "note");
    this.error = element("p", "error");
    this.error.setAttribute("role", "alert");
    this.actions = element("div", "actions");
    this.markdown = new Markdown(this.body);
    this.shown = { content: 0, reasoning: 0 };
    this.node.replaceChildren(this.reasoning, this.body, this.calls, this.error, this.note, this.actions);
    // What a user wrote is shown as it was written.
    if (role === "user") {
      this.body.dir = "auto";
      this.body.textContent = content;
      this.shown.content = content.length;
    } else {
      this.update();
    }
    this.finish([]);
  }

  // Shows how it ended, and what may be done with it: a list of [label, function].
  finish(actions) {
    const { content, reasoning, calls, note, error } = this.message;
    for (const [node, text] of [[this.note, note], [this.error, error]]) {
      node.textContent = text ?? "";
      node.hidden = !text;
    }
    this.body.hidden = !content;
    this.reasoning.hidden = !reasoning;
    this.calls.hidden = !calls?.length;
    this.actions.replaceChildren(...actions.map(([label, run]) => button(label, run)));
  }

  // Shows what has arrived since the last time.
  update() {
    const { content, reasoning = "", calls = [] } = this.message;
    const end = Math.min(content.length, this.shown.content + STEP);
    this.reasoning.hidden = reasoning === "";
    this.body.hidden = content === "";
    this.calls.hidden = calls.length === 0;
    if (reasoning.length > this.shown.reasoning) this.thoughts.append(reasoning.slice(this.shown.reasoning));
    if (end > this.shown.content) this.markdown.append(content.slice(this.shown.content, end));
    this.shown = { content: end, reasoning: reasoning.length };
    this.calls.replaceChildren(...calls.map(call =>
      element("details", "call", element("summary", "", `Calls ${call.name}`), element("pre", "", pretty(call.arguments)))));
    if (end < content.length) this.updateSoon();
  }

  // Shows it soon. Drawing takes a fifth of the time at most, however long the text is.
  updateSoon() {
    if (this.timer !== null) return;
    this.timer = setTimeout(() => {
      const begin = performance.now();
      this.timer = null;
      this.update();
      this.drawn();
      this.cost = performance.now() - begin;
    }, Math.max(30, 4 * (this.cost ?? 0)));
  }

  // Puts an editor in the message's place. `save` gets the new text.
  edit(action, save, done) {
    const area = element("textarea");
    area.value = this.message.content;
    area.rows = Math.min(12, area.value.split("\n").length + 1);
    area.setAttribute("aria-label", "Edit the message");
    const form = element("form", "editor", area, submit(action), button("Cancel", done));
    form.addEventListener("submit", event => {
      event.preventDefault();
      if (area.value.trim()) save(area.value);
    });
    form.addEventListener("keydown", event => {
      if (event.key === "Escape") done();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    this.node.replaceChildren(form);
    area.focus();
  }
}

export function button(label, run) {
  const node = element("button", "", label);
  node.type = "button";
  node.addEventListener("click", () => run(node));
  return node;
}

function submit(label) {
  return element("button", "primary", label);
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

// Copies a text, and says so on the button.
export async function copy(text, node) {
  const label = node.textContent;
  try {
    await navigator.clipboard.writeText(text);
    node.textContent = "Copied";
  } catch {
    // Browsers have no clipboard for pages without TLS on other hosts.
    node.textContent = copyBySelection(text) ? "Copied" : "Cannot copy";
  }
  setTimeout(() => (node.textContent = label), 1500);
}

function copyBySelection(text) {
  const area = element("textarea", "offscreen");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
