// The dialogs: settings of a conversation, the server's key, the list of shortcuts.
import { setKey } from "./api.js";
import { byId } from "./dom.js";

const kNumbers = { "set-temperature": "temperature", "set-top-p": "topP",
                   "set-max-tokens": "maxTokens", "set-seed": "seed" };

// `save(settings)` is called with what was entered; numbers that were left empty are absent.
export function openSettings(settings, save) {
  const dialog = byId("settings");
  byId("set-system").value = settings.system ?? "";
  byId("set-think").value = settings.think ?? "off";
  for (const [id, name] of Object.entries(kNumbers)) byId(id).value = settings[name] ?? "";
  dialog.returnValue = "";
  // No submit buttons: the Enter key presses a form's first one.
  dialog.querySelector(".cancel").onclick = () => dialog.close();
  dialog.querySelector(".reset").onclick = () => dialog.close("reset");
  dialog.onclose = () => {
    if (dialog.returnValue === "reset") save({ system: "", think: "off" });
    if (dialog.returnValue !== "save") return;
    const entered = { system: byId("set-system").value, think: byId("set-think").value };
    for (const [id, name] of Object.entries(kNumbers)) {
      const value = byId(id).valueAsNumber;
      if (!Number.isNaN(value)) entered[name] = value;
    }
    save(entered);
  };
  dialog.showModal();
}

// `given()` is called once the reader has entered a key. A dialog that is open stays as it is.
export function openKeyDialog(refused, given) {
  const dialog = byId("key");
  if (dialog.open) return;
  byId("key-refused").hidden = !refused;
  byId("key-field").value = "";
  dialog.returnValue = "";
  dialog.querySelector(".cancel").onclick = () => dialog.close();
  dialog.onclose = () => {
    if (dialog.returnValue !== "use") return;
    setKey(byId("key-field").value.trim());
    given();
  };
  dialog.showModal();
}

// "light", "dark" or "auto".
export function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
