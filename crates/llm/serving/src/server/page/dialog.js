// Questions that wait for an answer.

const dialog = document.querySelector("#question");

// Asks for a text, or with `value` null for a yes. Resolves to the text or true; to null if the user declines.
export function ask(question, { value = null, action = "Save", type = "text" } = {}) {
  const form = dialog.querySelector("form");
  const input = dialog.querySelector("input");
  dialog.querySelector("label > span").textContent = question;
  input.hidden = value === null;
  input.type = type;
  input.value = value ?? "";
  form.querySelector("[value=yes]").textContent = action;
  dialog.returnValue = "";
  dialog.showModal();
  if (value !== null) input.select();
  return new Promise(resolve => {
    dialog.addEventListener("close", () => {
      const accepted = dialog.returnValue === "yes";
      resolve(accepted ? (value === null ? true : input.value) : null);
    }, { once: true });
  });
}

// No button that submits, because Enter presses the first of those.
for (const cancel of document.querySelectorAll("dialog .cancel")) {
  cancel.addEventListener("click", () => cancel.closest("dialog").close(""));
}
