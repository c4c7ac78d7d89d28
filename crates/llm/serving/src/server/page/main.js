// The page: the list of conversations, the one that is shown, and the composer.

import { summary, take } from "./answer.js";
import * as api from "./api.js";
import { ask } from "./dialog.js";
import { element } from "./inline.js";
import { MessageView, button, copy } from "./message.js";
import * as settings from "./settings.js";
import * as store from "./store.js";

const at = selector => document.querySelector(selector);
const [log, list, form, input, send, status, sidebar] =
  ["#log", "#list", "#composer", "#composer textarea", "#send", "#status", "#sidebar"].map(at);

let model = null;
let shown = null;
// The view of each message of the conversation that is shown.
let views = [];
// Answers that are being written: their conversations, and how to stop them.
const running = new Map();
const removed = new WeakSet();
// A screen keyboard has no Shift+Enter: its Enter breaks the line.
const isTouched = matchMedia("(hover: none) and (pointer: coarse)");
// Whether the end of the conversation stays in sight.
let following = true;
// Whether the browser's storage had no room for the newest change.
let isFull = false;

// --- the model and its key

async function connect() {
  try {
    model = await api.model();
    at("#model").textContent = model.id;
    document.title = `${model.id} - warpwright`;
    settings.showDefaults(model);
    say("");
  } catch (error) {
    const why = api.hasKey() ? "This server does not take the API key." : "This server wants an API key.";
    if (error.status === 401 && (await askForKey(why))) return connect();
    say(error.message);
  }
}

async function askForKey(why) {
  const key = await ask(`${why} API key:`, { value: "", action: "Use", type: "password" });
  if (key === null) return false;
  api.setKey(key.trim());
  return true;
}

// A line beside the composer, which screen readers speak.
function say(text) {
  const full = "The browser's storage is full: export this conversation, or delete others, before you close the page.";
  status.textContent = isFull ? `${text} ${full}` : text;
}

// --- conversations

function show(conversation) {
  shown = conversation;
  views = conversation.messages.map(message => new MessageView(message, follow));
  log.replaceChildren(...views.map(view => view.node));
  log.toggleAttribute("data-empty", views.length === 0);
  views.forEach(view => view.finish(actions(view)));
  drawList();
  if (!running.has(conversation)) say("");
  drawComposer();
  toEnd();
  sessionStorage.setItem("warpwright/shown", conversation.id);
}

function drawList() {
  at("#title").textContent = shown.title;
  const item = conversation => {
    const open = button(conversation.title, () => {
      closeSidebar();
      show(conversation);
      input.focus();
    });
    open.className = "open";
    if (conversation.id === shown.id) open.setAttribute("aria-current", "true");
    const menu = [
      ["Rename", () => rename(conversation)],
      ["Export", () => download(conversation)],
      ["Delete", () => remove(conversation)],
    ];
    const tools = menu.map(([label, run]) => {
      const node = button(label, run);
      node.setAttribute("aria-label", `${label} ${conversation.title}`);
      return node;
    });
    return element("li", "", open, element("span", "tools", ...tools));
  };
  const saved = store.list();
  list.replaceChildren(...(saved.includes(shown) ? saved : [shown, ...saved]).map(item));
}

function save(conversation) {
  if (removed.has(conversation)) return;
  conversation.updated = Date.now();
  isFull = !store.save(conversation);
}

function begin() {
  closeSidebar();
  show(store.create(shown?.settings ?? {}));
  input.focus();
}

async function rename(conversation) {
  const title = await ask("Title of the conversation:", { value: conversation.title });
  if (!title?.trim()) return;
  conversation.title = title.trim();
  save(conversation);
  drawList();
}

async function remove(conversation) {
  if (!(await ask(`Delete “${conversation.title}”?`, { action: "Delete" }))) return;
  removed.add(conversation);
  running.get(conversation)?.abort();
  store.remove(conversation.id);
  if (conversation === shown) show(store.list()[0] ?? store.create(shown.settings));
  else drawList();
}

function download(conversation) {
  const link = element("a");
  link.href = URL.createObjectURL(store.exportFile(conversation));
  link.download = `${conversation.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// --- messages

function actions(view) {
  const { message } = view;
  const isLast = shown.messages.at(-1) === message;
  if (running.has(shown) && isLast) return [];
  const again = message.role === "user"
    ? message.error ? [["Try again", () => retry(view)]] : []
    : [["Regenerate", () => retry(view)]];
  return [["Copy", node => copy(message.content, node)], ["Edit", () => edit(view)], ...again];
}

function push(conversation, message) {
  conversation.messages.push(message);
  if (conversation !== shown) return null;
  const view = new MessageView(message, follow);
  views.push(view);
  log.append(view.node);
  view.finish(actions(view));
  log.removeAttribute("data-empty");
  return view;
}

// Drops a message that is asked again, and what followed it. One that failed has nothing that follows from it.
function withdraw({ message }) {
  const index = shown.messages.indexOf(message);
  const number = message.role === "user" && message.error ? 1 : Infinity;
  shown.messages.splice(index, number);
  views.splice(index, number).forEach(view => view.node.remove());
}

function edit(view) {
  const { message } = view;
  const done = () => {
    view.draw();
    view.finish(actions(view));
    view.actions.querySelectorAll("button")[1]?.focus();
  };
  if (message.role === "assistant") {
    return view.edit("Save", async text => {
      if (await isBusy()) return;
      message.content = text;
      save(shown);
      done();
    }, done);
  }
  view.edit("Send", async text => {
    if (!(await mayDrop(view)) || (await isBusy())) return;
    withdraw(view);
    push(shown, { role: "user", content: text });
    answer(shown);
    input.focus();
  }, done);
}

// Answers again: a message that failed, or an answer in the place of one.
async function retry(view) {
  if (!(await mayDrop(view)) || (await isBusy())) return;
  const { role, content, attempt } = view.message;
  const kept = role === "assistant" ? shown.messages.slice(shown.messages.indexOf(view.message)) : [];
  withdraw(view);
  if (role === "user") push(shown, { role, content });
  answer(shown, role === "user" ? 0 : (attempt ?? 0) + 1, kept);
}

// Whether what follows a message that is asked again may go, its own answer apart.
async function mayDrop({ message }) {
  const isFailed = message.role === "user" && message.error;
  const own = message.role === "user" ? 2 : 1;
  const dropped = isFailed ? 0 : shown.messages.length - shown.messages.indexOf(message) - own;
  if (dropped <= 0) return true;
  return ask(`This drops what follows: ${dropped === 1 ? "a message" : `${dropped} messages`}.`, { action: "Drop" });
}

// Whether an answer to the conversation is being written, here or in another tab.
async function isBusy() {
  const isHere = running.has(shown);
  // Another key may have begun an answer meanwhile.
  if (!isHere && !(await store.isHeld(shown))) return running.has(shown);
  say(isHere ? "An answer is being written. Stop it first." : "An answer is being written in another tab.");
  return true;
}

// --- answers

// The messages of a request: those that failed had no answer and are left out.
function requested(conversation) {
  const system = conversation.settings.system;
  const kept = conversation.messages.filter(message => !(message.role === "user" && message.error));
  return [...(system ? [{ role: "system", content: system }] : []), ...kept.map(store.sent)];
}

// `kept` comes back if the answer that stands for it never begins.
async function answer(conversation, attempt = 0, kept = []) {
  const controller = new AbortController();
  const question = conversation.messages.at(-1);
  const messages = requested(conversation);
  const message = { role: "assistant", content: "", attempt };
  if (conversation.messages.length === 1 && conversation.title === "New conversation") {
    conversation.title = [...question.content.trim().split("\n")[0]].slice(0, 60).join("");
  }
  running.set(conversation, controller);
  save(conversation);
  push(conversation, message);
  drawList();
  drawComposer();
  toEnd();
  const times = { begin: performance.now(), saved: performance.now() };
  try {
    // The server could not be reached when the page began.
    if (!model) await connect();
    drawComposer();
    const body = { ...settings.fields(conversation.settings, model?.chat_defaults, attempt), messages };
    await store.hold(conversation, controller.signal, () => receive(conversation, message, api.answer(body, controller.signal), times));
    controller.abort();
    message.note = summary(message, times);
  } catch (error) {
    fail(conversation, message, error, kept);
  }
  running.delete(conversation);
  delete message.reason;
  delete message.tokens;
  save(conversation);
  drawList();
  if (conversation === shown) finish();
}

async function receive(conversation, message, chunks, times) {
  const bound = conversation.settings.max_tokens ? Infinity : (model?.chat_defaults?.max_tokens ?? Infinity);
  for await (const chunk of chunks) {
    take(message, chunk, times);
    if (conversation === shown && views.at(-1)?.message === message) views.at(-1).updateSoon();
    if (message.tokens >= bound) {
      message.reason = "length";
      return;
    }
    if (performance.now() - times.saved > 2000) {
      times.saved = performance.now();
      save(conversation);
    }
  }
}

// An error stays where it happened, and the conversation goes on.
function fail(conversation, message, error, kept) {
  const isBegun = message.content || message.reasoning || message.calls;
  if (error.name === "AbortError") {
    if (isBegun) message.note = "stopped";
  } else if (isBegun) {
    message.error = error.message;
  }
  if (isBegun) return;
  // Nothing came: the question keeps its text and has the error.
  conversation.messages.pop();
  const failed = kept[0] ?? conversation.messages.at(-1);
  failed.error = error.name === "AbortError" ? "Stopped before the answer began." : error.message;
  conversation.messages.push(...kept);
  if (error.status === 401) askForKey(error.message);
}

// The last view of an answer that has ended, or all of them if it never began.
function finish() {
  const last = views.at(-1);
  if (views.length === shown.messages.length && last.message === shown.messages.at(-1)) {
    last.update();
    last.finish(actions(last));
    drawComposer();
    follow();
  } else {
    show(shown);
  }
  const { role, error, note } = shown.messages.at(-1);
  const failure = role === "user" ? "The message was not answered." : "The answer broke off.";
  say(error ? failure : note === "stopped" ? "The answer was stopped." : "The answer has ended.");
}

function toEnd() {
  following = true;
  follow();
}

// Keeps the end in sight, unless the user has scrolled away from it.
function follow() {
  if (following) scrollTo(0, document.body.scrollHeight);
}

addEventListener("scroll", () => {
  following = innerHeight + scrollY >= document.documentElement.scrollHeight - 60;
});

// --- the composer

function drawComposer() {
  const busy = running.has(shown);
  send.textContent = busy ? "Stop" : "Send";
  log.setAttribute("aria-busy", busy);
  if (busy) say("The answer is being written.");
}

function stop() {
  running.get(shown)?.abort();
}

async function submit() {
  if (!input.value.trim() || (await isBusy())) return;
  const content = input.value;
  input.value = "";
  typed();
  push(shown, { role: "user", content });
  answer(shown);
}

// The field is as high as its text, up to a third of the page, and the text outlives the page.
function typed() {
  store.keepDraft(input.value);
  input.style.height = "auto";
  input.style.height = `${Math.min(input.scrollHeight + 2, innerHeight / 3)}px`;
}

function closeSidebar() {
  sidebar.classList.remove("opened");
  at("#menu").setAttribute("aria-expanded", "false");
}

form.addEventListener("submit", event => {
  event.preventDefault();
  if (running.has(shown)) stop();
  else submit();
});
input.addEventListener("input", typed);
input.addEventListener("keydown", event => {
  // Enter sends, and stops nothing: the text waits until the answer has ended.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || isTouched.matches) return;
  event.preventDefault();
  submit();
});
document.addEventListener("keydown", event => {
  if (event.key === "Escape" && sidebar.classList.contains("opened")) closeSidebar();
  else if (event.key === "Escape" && !at("dialog[open]") && !event.target.closest(".editor")) stop();
  // On a Mac, Alt makes another letter of the key.
  else if (event.altKey && (event.key === "n" || event.code === "KeyN")) begin();
  else if (event.altKey && (event.key === "s" || event.code === "KeyS")) at("#configure").click();
  else return;
  event.preventDefault();
});
log.addEventListener("click", event => {
  if (event.target.matches(".copy-code")) copy(event.target.closest("figure").querySelector("pre").textContent, event.target);
});
// A phone has no Escape: beside the list is out of it.
at("main").addEventListener("click", closeSidebar);
at("#new").addEventListener("click", begin);
at("#menu").addEventListener("click", event => {
  const opened = sidebar.classList.toggle("opened");
  event.target.setAttribute("aria-expanded", opened);
  if (opened) at("#new").focus();
});
at("#configure").addEventListener("click", async () => {
  const chosen = await settings.edit(shown.settings);
  if (!chosen) return;
  shown.settings = chosen;
  if (shown.messages.length) save(shown);
});
at("#key").addEventListener("click", async () => {
  if (await askForKey("Kept in this browser.")) connect();
});
addEventListener("pagehide", () => {
  for (const conversation of running.keys()) save(conversation);
});
store.onChange(conversation => running.has(conversation), id => {
  if (id !== shown.id || running.has(shown)) drawList();
  else show(store.get(id) ?? store.create(shown.settings));
});

store.load();
input.value = store.draft();
typed();
show(store.get(sessionStorage.getItem("warpwright/shown")) ?? store.create(store.list()[0]?.settings ?? {}));
connect();
