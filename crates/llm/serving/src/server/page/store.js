// Conversations, kept in this browser: an entry of its storage for each.
//
//   { id, title, updated, settings: { system, temperature, .. },
//     messages: [{ role, content, reasoning, calls, note, error, attempt }] }

const PREFIX = "warpwright/conversation/";
const all = new Map();

export function load() {
  for (const key of Object.keys(localStorage).filter(key => key.startsWith(PREFIX))) read(localStorage.getItem(key));
}

// `answers` says whether this tab writes an answer to a conversation.
function read(text, answers = () => false) {
  try {
    const conversation = JSON.parse(text);
    if (!Array.isArray(conversation.messages)) return;
    // What holds the conversation goes on holding it.
    const known = all.get(conversation.id) ?? {};
    if (answers(known)) delete conversation.messages;
    all.set(conversation.id, Object.assign(known, conversation));
  } catch {
    // Not one of this page's; it stays where it is.
  }
}

// The newest first.
export const list = () => [...all.values()].sort((a, b) => b.updated - a.updated);

export const get = id => all.get(id);

export function create(settings) {
  const id = [...crypto.getRandomValues(new Uint32Array(3))].map(word => word.toString(36)).join("");
  return { id, title: "New conversation", updated: Date.now(), settings: { ...settings }, messages: [] };
}

// Returns false if the storage is full: the conversation then lives as long as the page.
export function save(conversation) {
  all.set(conversation.id, conversation);
  try {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
    return true;
  } catch {
    return false;
  }
}

export function remove(id) {
  all.delete(id);
  localStorage.removeItem(PREFIX + id);
}

// What is typed and not sent yet, in this tab.
const DRAFT = "warpwright/draft";
export const draft = () => sessionStorage.getItem(DRAFT) ?? "";

export function keepDraft(text) {
  try {
    sessionStorage.setItem(DRAFT, text);
  } catch {
    // It is too large, and lives as long as the page.
  }
}

// Another tab changed a conversation, or removed it.
export function onChange(answers, changed) {
  addEventListener("storage", event => {
    if (!event.key?.startsWith(PREFIX)) return;
    const id = event.key.slice(PREFIX.length);
    if (event.newValue === null) all.delete(id);
    else read(event.newValue, answers);
    changed(id);
  });
}

// Runs `work` while other tabs see that the conversation is held. A page of another host without TLS has no locks.
export const hold = ({ id }, signal, work) => navigator.locks ? navigator.locks.request(id, { signal }, work) : work();

export const isHeld = async ({ id }) => (await navigator.locks?.query())?.held.some(lock => lock.name === id) ?? false;

// A file of the conversation, in the form of the API's requests, with its title.
export function exportFile(conversation) {
  const system = conversation.settings.system;
  const messages = conversation.messages.filter(message => !message.error || message.role === "assistant");
  const file = {
    title: conversation.title,
    messages: [...(system ? [{ role: "system", content: system }] : []), ...messages.map(sent)],
  };
  return new Blob([JSON.stringify(file, null, 2)], { type: "application/json" });
}

// A message as the API has it.
export function sent({ role, content, calls }) {
  if (!calls?.length) return { role, content };
  const functions = calls.map(call => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
  return { role, content, tool_calls: functions };
}
