// What HTML and htmx leave to script. Nothing on a page needs this file: without it every
// link and form still works, dialogs are pages, and times are absolute.
//
//   data-hotkey="a"         the control's key; `install` of @github/hotkey. Held down, it goes on
//                           with links alone: the next step, and the next
//   data-see="#id …"        its key acts only once these can be seen; the first press shows them
//   data-twice="text"       its key acts at the second press; the first says so
//   data-read               a <details> with a box to tick: opening it ticks the box
//   data-enter              a <details> with a form: opening it leads to the first field
//   data-opens              a link that opens the <details> which it leads to
//   data-rows               a list whose rows j and k walk, o opens, x selects, J and K extend
//   data-picked             what is done with selected rows; data-count and data-many say how many
//   data-first="#id"        a field in which Enter and the arrows lead into that list of links
//   data-modal              a <dialog open> from the server that should block the page
//   data-close              closes the dialog it stands in
//   data-back               a link that closes a sheet; what opened the sheet has the focus again
//   data-copy="text"        copies the text, or the page's address when empty
//   data-copy-of="#id"      copies the text of that element
//   data-dismiss            removes the toast or note it stands in
//   data-seconds="5"        a toast that goes sooner than others, when what it offers is over
//   data-dismisses          the same, once what it sends is on its way
//   data-default            the button that Ctrl+Enter presses (else the form's first)
//   data-fill="#id"         a radio whose value is put into that field, unless someone wrote there
//   data-auto               a form that submits when one of its fields changes
//   data-show-pane="step"   on a phone, shows one pane of the debugger

import { install, uninstall } from "./vendor/hotkey-3.1.4.js";

const root = document.documentElement;
const FIELD = "input:not([type=checkbox], [type=radio], [type=range], [type=hidden]), select, textarea, [contenteditable]";
const TOAST_SECONDS = 8;
const USER_EVENTS = new Set(["click", "submit", "change", "input", "toggle"]);

function say(text) {
  document.getElementById("say")?.replaceChildren(text);
}

function toast(text, role = "alert") {
  const toasts = document.getElementById("toasts");
  if (!toasts) return;
  const box = document.createElement("div");
  box.className = "toast";
  box.setAttribute("role", role);
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

const warned = new Set(); // controls whose first press showed what they are about

// What was looked at may not be what is there now. A list that is drawn anew beside it is.
function forgetLooks(part) {
  for (const control of warned) {
    const about = control.closest("article, dialog") ?? document.body;
    if (!control.isConnected || about.contains(part) || part.contains(about)) warned.delete(control);
  }
}
const UNREAD = "[data-read]:has([name=read]:not(:checked)), [data-read]:not(:has([name=read]))";

function canBeSeen(element, limit) {
  const { bottom, width } = element.getBoundingClientRect();
  return width > 0 && bottom > 0 && bottom <= limit + 1;
}

// A key must not decide what its owner has not seen: what scrolled away comes back first.
function mayFire(control) {
  if (isHeld && !control.matches("a")) return false; // a press is one, however long it lasts
  const modal = document.querySelector("dialog:modal");
  if (modal && !modal.contains(control)) return false;
  if (warned.has(control)) return true;
  const folded = control.dataset.see && document.querySelector(UNREAD);
  if (folded) {
    folded.open = true;
    folded.scrollIntoView({ block: "nearest" });
    folded.querySelector("a.btn, summary").focus(); // the rest may have a page of its own
    say(`This is longer than what could be seen. Read it, then press ${control.dataset.hotkey} again.`);
    return false;
  }
  if (control.dataset.twice) {
    warned.add(control);
    say(control.dataset.twice);
    toast(control.dataset.twice, "status");
  }
  if (!control.dataset.see) return !control.dataset.twice;
  const limit = control.closest(".bar, .sheet")?.getBoundingClientRect().top ?? innerHeight;
  const unseen = [...document.querySelectorAll(control.dataset.see)].find(
    (element) => !canBeSeen(element, limit),
  );
  if (!unseen) return !control.dataset.twice;
  unseen.scrollIntoView({ block: "end" });
  warned.add(control);
  say(`Look at this first, then press ${control.dataset.hotkey} again.`);
  return false;
}

let isHeld = false; // the key that is being heard
document.addEventListener("keydown", ({ repeat }) => { isHeld = repeat; }, true);
document.addEventListener(
  "hotkey-fire", // does not bubble
  (event) => {
    if (!mayFire(event.target)) event.preventDefault();
  },
  true,
);

// ---- Keys that belong to no single control

function linksOf(rows) {
  return [...rows.querySelectorAll("a.t, button.t")].filter((link) => link.checkVisibility()); // not folded
}

const rowOf = (link) => link.closest(".item, tr");

let stoodAt = null; // the row that had the focus last, and its place in the list

document.addEventListener("focusin", (event) => {
  const rows = event.target.closest("[data-rows]");
  if (!rows) return;
  const at = linksOf(rows).findIndex((link) => rowOf(link)?.contains(event.target));
  stoodAt = at < 0 ? null : { row: rowOf(event.target), at };
});

// A row may leave while someone stands on it: what came up in its place has the focus then.
function keepPlace() {
  const rows = document.querySelector("[data-rows]");
  if (!rows || !stoodAt || stoodAt.row?.isConnected || document.activeElement !== document.body) return;
  const links = linksOf(rows);
  links[Math.min(stoodAt.at, links.length - 1)]?.focus();
}

function walk(rows, by) {
  const links = linksOf(rows);
  const at = links.findIndex((link) => rowOf(link).contains(document.activeElement));
  const from = at >= 0 ? at : links.findIndex((link) => link.closest("[aria-current]"));
  links[Math.max(0, Math.min(links.length - 1, from + by))]?.focus();
}

function boxHere(rows) {
  const row = document.activeElement.closest(".item, tr");
  return row && rows.contains(row) ? row.querySelector("input[type=checkbox]") : null;
}

function extend(rows, by) {
  const pick = () => {
    const box = boxHere(rows);
    if (box && !box.checked) box.click();
  };
  if (!boxHere(rows)) walk(rows, by);
  else {
    pick();
    walk(rows, by);
  }
  pick();
}

function open(rows) {
  const row = document.activeElement.closest(".item, tr");
  if (row && rows.contains(row)) row.querySelector("a.t")?.click();
}

const ROW_KEYS = {
  j: (rows) => walk(rows, 1),
  k: (rows) => walk(rows, -1),
  J: (rows) => extend(rows, 1),
  K: (rows) => extend(rows, -1),
  o: open,
  x: (rows) => boxHere(rows)?.click(),
};

// How many rows are selected, where it is said what can be done with them.
function countPicked(aloud) {
  for (const bar of document.querySelectorAll("[data-picked]")) {
    // Not bar.id: its fields are called that, and a form's own properties give way to them.
    const picked = [...bar.elements].filter((field) => field.checked).length;
    bar.querySelector("[data-count]").textContent = `${picked} selected`;
    for (const many of bar.querySelectorAll("[data-many]")) many.textContent = `\u00a0${picked}`;
    if (aloud) say(`${picked} selected`);
  }
}

// From a field into the list that it filters.
function intoList(event, field) {
  const links = [...document.querySelectorAll(`${field.dataset.first} a`)];
  if (!links.length) return false;
  if (event.key === "Enter") links[0].click();
  else if (event.key === "ArrowDown") links[0].focus();
  else return false;
  event.preventDefault();
  return true;
}

function alongList(event) {
  const list = event.target.closest("[data-list]");
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!list || !by) return false;
  const links = [...list.querySelectorAll("a")];
  const to = links.indexOf(event.target) + by;
  const field = document.querySelector(`[data-first="#${list.id}"]`);
  (to < 0 ? field : links[Math.min(to, links.length - 1)])?.focus();
  event.preventDefault();
  return true;
}

function keyInField(event, field) {
  if (field.dataset.first && intoList(event, field)) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && field.form) {
    event.preventDefault();
    field.form.requestSubmit(field.form.querySelector("[data-default]"));
  } else if (event.key === "Escape" && !field.closest("dialog:modal, details.pop")) {
    leaveField(field);
  }
}

// Out of a sheet's field one stands on the sheet's cross. With nothing focused the place in
// the page would be lost, and a browser that has not yet drawn an autofocus gives it again.
function leaveField(field) {
  const cross = field.closest(".sheet")?.querySelector("[data-back][data-hotkey]");
  if (cross) cross.focus();
  else field.blur();
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches?.(FIELD)) {
    keyInField(event, event.target);
    if (event.key !== "Escape" || !event.target.closest("details.pop")) return;
  }
  if (alongList(event)) return;
  const menu = event.key === "Escape" && document.querySelector("details.pop[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return;
  }
  const rows = document.querySelector("[data-rows]");
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (!rows || !plain || !shortcuts || document.querySelector("dialog:modal")) return;
  ROW_KEYS[event.key]?.(rows);
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

// ---- Sheets: parts of the page, which come and go with it

let sheetOpener = ""; // the address of the link that led to the sheet
let closesSheet = false;

function giveBackFocus() {
  if (!closesSheet || document.querySelector(".sheet")) return;
  closesSheet = false;
  const opener = document.querySelector(`article a[href="${CSS.escape(sheetOpener)}"]`);
  const shown = opener?.checkVisibility() ? opener : opener?.closest("details")?.querySelector("summary");
  (shown ?? document.querySelector("article h2[tabindex]"))?.focus();
}

// ---- Folded text: who opened it has seen it. A folded form: who opens it fills it in

document.addEventListener(
  "toggle", // does not bubble
  ({ target }) => {
    const box = target.open && target.matches("[data-read]") && target.querySelector("[name=read]");
    if (box) box.checked = true;
    if (target.open && target.matches("[data-enter]")) target.querySelector(FIELD)?.focus();
  },
  true,
);

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
  "[data-copy-of]": (control) => copy(document.querySelector(control.dataset.copyOf).textContent),
  "[data-dismisses]": (control) => setTimeout(() => control.closest(".toast")?.remove()),
  "[data-dismiss]": (control) => control.closest(".toast, .note")?.remove(),
  "[data-close]": (control, event) => {
    const dialog = control.closest("dialog:modal");
    if (!dialog) return; // the link leads back
    event.preventDefault();
    dialog.close();
  },
  "[data-opens]": (control) => {
    const folded = document.querySelector(control.hash);
    if (folded) folded.open = true;
  },
  "article a[hx-get]:not([data-back])": (control) => {
    sheetOpener = control.getAttribute("href");
  },
  "[data-back]": () => {
    closesSheet = true;
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
  setTimeout(leave, Math.min(TOAST_SECONDS, box.dataset.seconds ?? TOAST_SECONDS) * 1000);
}

// ---- Forms

// What a menu filters is drawn anew behind it: done with, it closes.
document.addEventListener("submit", ({ target }) => {
  const menu = target.method === "get" && target.closest("details.pop");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

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
  if (event.target.form?.matches("[data-picked]")) countPicked(true);
  if (event.target.form?.matches("[data-auto]")) event.target.form.requestSubmit();
});

document.addEventListener("reset", (event) => {
  if (event.target.matches("[data-picked]")) setTimeout(countPicked, 0, true); // once it is reset
});

// The thumb moves before the server has answered; what is read aloud moves with it.
document.addEventListener("input", (event) => {
  if (!event.target.matches("input.scrub")) return;
  const scrub = event.target;
  const last = Number(scrub.dataset.last); // of this branch: the map may show longer ones
  const step = Math.min(scrub.value, last);
  if (step < scrub.value) scrub.value = step;
  const label = document.querySelector(`#step-${step} .l`)?.textContent ?? "";
  scrub.setAttribute("aria-valuetext", `Step ${step} of ${last}${label && `, ${label}`}`);
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
  if (!USER_EVENTS.has(ctx.sourceEvent?.type)) return;
  if (ctx.response.status === 503) {
    toast("Too much is asked at once. Nothing was changed: try again in a few seconds.");
  } else if (ctx.response.status >= 500) {
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
  forgetLooks(part);
  refreshHotkeys(part);
  each(part, "dialog[data-modal]", showModal);
  each(part, ".toast", fade);
  showCurrentStep();
  countPicked();
  giveBackFocus();
  keepPlace();
}

prepare(document.body);
