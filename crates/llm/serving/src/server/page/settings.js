// The settings of a conversation. What is left empty is the model's default, which the field shows.

const dialog = document.querySelector("#settings");
const form = dialog.querySelector("form");
const NUMBERS = ["temperature", "top_p", "top_k", "max_tokens", "seed"];

// Shows what an empty field means.
export function showDefaults(model) {
  for (const name of NUMBERS) {
    const value = model.chat_defaults?.[name];
    if (value !== undefined && value !== null) form.elements[name].placeholder = value;
  }
  form.elements.max_tokens.max = model.max_model_len;
}

// Lets the user edit. Resolves to the new settings, or null.
export function edit(settings) {
  for (const name of ["system", "tools", "think", ...NUMBERS]) form.elements[name].value = settings[name] ?? "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise(resolve => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? read() : null), { once: true });
  });
}

function read() {
  const settings = {};
  for (const name of ["system", "tools", "think"]) settings[name] = form.elements[name].value.trim();
  for (const name of NUMBERS) {
    if (form.elements[name].value !== "") settings[name] = form.elements[name].valueAsNumber;
  }
  return settings;
}

form.elements.tools.addEventListener("input", event => {
  const field = event.target;
  let isList = true;
  try {
    isList = field.value.trim() === "" || Array.isArray(JSON.parse(field.value));
  } catch {
    isList = false;
  }
  field.setCustomValidity(isList ? "" : "Give a JSON list of functions, as the API has them.");
});

// The fields of a request. `attempt` makes another answer of a seed.
export function fields(settings, defaults, attempt) {
  const body = {};
  for (const name of NUMBERS) {
    // A bound that nobody asked for is no demand: the server would refuse what does not fit.
    const value = settings[name] ?? (name === "max_tokens" ? null : defaults?.[name]);
    if (value !== undefined && value !== null) body[name] = value;
  }
  if (body.seed !== undefined) body.seed += attempt;
  if (settings.tools) body.tools = JSON.parse(settings.tools);
  if (settings.think) body.chat_template_kwargs = { enable_thinking: settings.think === "on" };
  return body;
}
