// What HTML and htmx leave to script. Nothing on a page needs this file: without it every
// link and form still works, dialogs are pages, and times are absolute.
//
//   data-hotkey="a"         the control's key; `install` of @github/hotkey
//   data-see="#id …"        its key acts only once these can be seen; the first press shows them
//   data-rows               a list whose rows j and k walk, x selects
//   data-modal              a <dialog open> from the server that should block the page
//   data-close              closes the dialog it stands in
//   data-copy="text"        copies the text, or the page's address when empty
//   data-dismiss            removes the toast or note it stands in
//   data-default            the button that Ctrl+Enter presses (else the form's first)
//   data-fill="#id"         a radio whose value is put into that field, unless someone wrote there
//   data-auto               a form that submits when one of its fields changes
//   data-show-pane="step"   on a phone, shows one pane of the debugger

import { install, uninstall } from "./vendor/hotkey-3.1.4.js";

const root = document.documentElement;
const FIELD = "input:not([type=checkbox], [type=radio], [type=range]), select, textarea, [contenteditable]";
const TOAST_SECONDS = 8;
const USER_EVENTS = new Set(["click", "submit", "change", "input", "toggle"]);

function say(text) {
  document.getElementById("say")?.replaceChildren(text);
}

function toast(text) {
  const toasts = document.getElementById("toasts");
  if (!toasts) return;
  const box = document.createElement("div");
  box.className = "toast";
  box.setAttribute("role", "alert");
  box.append(text);
  toasts.append(box);
  fade(box);
}

function each(scope, selector, act) {
  if (scope.matches?.(selector)) act(scope);
  scope.querySelectorAll(selector).forEach(act);
}

// ---- Hotkeys: installed again after each swap, because rows come, go and are morphed

const shortcuts = root.dataset.shortcuts !== "off";
const installed = new Map(); // element → the keys it was installed with

function refreshHotkeys(scope) {
  if (!shortcuts) return;
  for (const [element, keys] of installed) {
    if (element.isConnected && element.dataset.hotkey === keys) continue;
    uninstall(element);
    installed.delete(element);
  }
  each(scope, "[data-hotkey]", (element) => {
    if (installed.has(element) || element.closest("[hx-ignore]")) return;
    install(element);
    installed.set(element, element.dataset.hotkey);
  });
}

let warned = new WeakSet();

function canBeSeen(element, limit) {
  const { bottom, width } = element.getBoundingClientRect();
  return width > 0 && bottom > 0 && bottom <= limit + 1;
}

// A key must not decide what its owner has not seen: what scrolled away comes back first.
function mayFire(control) {
  const modal = document.querySelector("dialog:modal");
  if (modal && !modal.contains(control)) return false;
  if (!control.dataset.see || warned.has(control)) return true;
  const limit = control.closest(".bar, .sheet")?.getBoundingClientRect().top ?? innerHeight;
  const unseen = [...document.querySelectorAll(control.dataset.see)].find(
    (element) => !canBeSeen(element, limit),
  );
  if (!unseen) return true;
  unseen.scrollIntoView({ block: "end" });
  warned.add(control);
  say(`Look at this first, then press ${control.dataset.hotkey} again.`);
  return false;
}

document.addEventListener(
  "hotkey-fire", // does not bubble
  (event) => {
    if (!mayFire(event.target)) event.preventDefault();
  },
  true,
);

// ---- Keys that belong to no single control

function walk(rows, by) {
  const links = [...rows.querySelectorAll("a.t")];
  const at = links.findIndex((link) => link.closest(".item, tr").contains(document.activeElement));
  const from = at >= 0 ? at : links.findIndex((link) => link.closest("[aria-current]"));
  links[Math.max(0, Math.min(links.length - 1, from + by))]?.focus();
}

function select(rows) {
  const row = document.activeElement.closest(".item, tr");
  if (row && rows.contains(row)) row.querySelector("input[type=checkbox]")?.click();
}

function keyInField(event, field) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && field.form) {
    event.preventDefault();
    field.form.requestSubmit(field.form.querySelector("[data-default]"));
  } else if (event.key === "Escape" && !field.closest("dialog:modal, details.pop")) {
    field.blur();
  }
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches?.(FIELD)) {
    keyInField(event, event.target);
    return;
  }
  const menu = event.key === "Escape" && document.querySelector("details.pop[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return;
  }
  const rows = document.querySelector("[data-rows]");
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (!rows || !plain || !shortcuts || document.querySelector("dialog:modal")) return;
  if (event.key === "j") walk(rows, 1);
  if (event.key === "k") walk(rows, -1);
  if (event.key === "x") select(rows);
});

// ---- Dialogs

function showModal(dialog) {
  if (dialog.matches(":modal")) return;
  const opener = document.activeElement;
  dialog.removeAttribute("open");
  dialog.showModal();
  dialog.addEventListener(
    "close",
    () => {
      dialog.remove();
      if (opener?.isConnected) opener.focus();
    },
    { once: true },
  );
}

// ---- Clicks

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
    return true;
  } catch {
    // No permission, or a plain-HTTP address: the browser keeps the clipboard closed.
    toast("This browser does not let the page copy. Select the text instead.");
    return false;
  }
}

function showPane(name) {
  const panes = document.querySelector(".tri[data-show]");
  if (!panes) return false;
  panes.dataset.show = name;
  for (const tab of document.querySelectorAll("[data-show-pane]")) {
    tab.removeAttribute("aria-current");
    if (tab.dataset.showPane === name) tab.setAttribute("aria-current", "true");
  }
  // The list may have been scrolled far down; what comes in its place begins at its top.
  document.querySelector("[data-show-pane]").closest("nav").scrollIntoView({ block: "center" });
  return true;
}

const CLICKS = {
  "[data-copy]": (control) => copy(control.dataset.copy || location.href),
  "[data-dismiss]": (control) => control.closest(".toast, .note")?.remove(),
  "[data-close]": (control, event) => {
    const dialog = control.closest("dialog:modal");
    if (!dialog) return; // the link leads back
    event.preventDefault();
    dialog.close();
  },
  "[data-show-pane]": (control, event) => {
    if (showPane(control.dataset.showPane)) event.preventDefault();
  },
  // Who picks a step from the list wants to see it.
  ".tri[data-show] a.step": () => showPane("step"),
};

document.addEventListener("click", (event) => {
  for (const [selector, act] of Object.entries(CLICKS)) {
    const control = event.target.closest(selector);
    if (control) act(control, event);
  }
  for (const menu of document.querySelectorAll("details.pop[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// ---- Toasts: they leave by themselves, but not while someone is at them, nor when they warn

function fade(box) {
  if (box.matches("[role=alert]") || box.dataset.fading) return;
  box.dataset.fading = "";
  const leave = () => {
    if (box.matches(":hover, :focus-within")) setTimeout(leave, 1000);
    else box.remove();
  };
  setTimeout(leave, TOAST_SECONDS * 1000);
}

// ---- Forms

const sent = new WeakSet();

document.addEventListener("submit", (event) => {
  const form = event.target;
  // htmx has its own guard (hx-disable), and prevents the event
  if (event.defaultPrevented || form.method !== "post") return;
  if (sent.has(form)) {
    event.preventDefault();
    return;
  }
  sent.add(form);
  form.setAttribute("aria-busy", "true");
});

// Back from the next page, the form may be sent again.
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.forms) {
    sent.delete(form);
    form.removeAttribute("aria-busy");
  }
});

// A canned answer starts the text; what was typed is never lost to a click.
function fill(radio) {
  const field = document.querySelector(radio.dataset.fill);
  const canned = [...document.getElementsByName(radio.name)].map((other) => other.value);
  if (!field || (field.value && !canned.includes(field.value))) return;
  field.value = radio.value;
  field.focus();
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-fill]")) fill(event.target);
  if (event.target.form?.matches("[data-auto]")) event.target.form.requestSubmit();
});

// The thumb moves before the server has answered; what is read aloud moves with it.
document.addEventListener("input", (event) => {
  if (!event.target.matches("input.scrub")) return;
  const { value, max } = event.target;
  const label = document.querySelector(`#step-${value} .l`)?.textContent ?? "";
  event.target.setAttribute("aria-valuetext", `Step ${value} of ${max}${label && `, ${label}`}`);
});

// ---- htmx

// A menu that someone opened stays open while the part it stands in is drawn anew.
htmx.registerExtension("menus", {
  htmx_before_morph_attr: (element, { attrName, newValue }) =>
    !(attrName === "open" && newValue === null && element.matches("details.pop")),
});

document.addEventListener("htmx:config:request", (event) => {
  // A tab that nobody looks at does not poll.
  if (document.hidden && event.detail.ctx.sourceEvent?.type === "every") event.preventDefault();
});

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  if (USER_EVENTS.has(ctx.sourceEvent?.type)) ctx.target?.setAttribute?.("aria-busy", "true");
});

document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  ctx.target?.removeAttribute?.("aria-busy");
});

document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
  if (USER_EVENTS.has(ctx?.sourceEvent?.type)) {
    toast("No answer from the server. Reload to see whether it arrived, then try again.");
  }
});

document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
  if (ctx.response.status >= 500 && USER_EVENTS.has(ctx.sourceEvent?.type)) {
    toast("Something broke on our side. Reload to see where things stand.");
  }
});

document.addEventListener("htmx:after:process", (event) => prepare(event.target));

// ---- Start

let currentStep = "";

// A list longer than its pane shows the step that is open, however it was come by.
function showCurrentStep() {
  const step = document.querySelector(".step[aria-current]");
  if (!step || step.id === currentStep) return;
  currentStep = step.id;
  step.scrollIntoView({ block: "nearest" });
}

function prepare(scope) {
  const part = scope instanceof Element ? scope : document.body;
  warned = new WeakSet(); // what was looked at may not be what is there now
  refreshHotkeys(part);
  each(part, "dialog[data-modal]", showModal);
  each(part, ".toast", fade);
  showCurrentStep();
}

prepare(document.body);
