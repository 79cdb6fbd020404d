// Every page is whole without this script: links and forms do the same with a whole page.
"use strict";

// Copy buttons. Without this they stay hidden, and what they would copy can be selected.
async function copy(source) {
  const text = "value" in source ? source.value : source.textContent;
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Without TLS browsers keep the clipboard from us; a selection still goes.
  const range = document.createRange();
  range.selectNodeContents(source);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  if (!document.execCommand("copy")) throw new Error("not copied");
}

for (const button of document.querySelectorAll("button[data-copies]")) {
  const source = document.getElementById(button.dataset.copies);
  const label = button.querySelector("[data-label]");
  if (!source || !label) continue;
  const before = label.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await copy(source);
      label.textContent = "Copied";
    } catch {
      label.textContent = "Select and copy manually";
    }
    setTimeout(() => { label.textContent = before; }, 2000);
  });
}

// One open menu at a time, and Escape closes it.
const menus = document.querySelectorAll("details.drop");
for (const menu of menus) {
  menu.addEventListener("toggle", () => {
    if (menu.open) for (const other of menus) if (other !== menu) other.open = false;
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of menus) {
    if (!menu.open) continue;
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  for (const menu of menus) if (!menu.contains(event.target)) menu.open = false;
});

// Fields that count only with a choice elsewhere in their form are shown once it is made.
for (const part of document.querySelectorAll("[data-only-with]")) {
  const choice = document.getElementById(part.dataset.onlyWith);
  if (!choice) continue;
  const settle = () => { part.hidden = choice.value !== part.dataset.value; };
  choice.addEventListener("change", settle);
  settle();
}

// Makes a part of the page like the same part of a newer page, in place: what has not changed keeps its focus, its
// selection and its open menus.
function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const next = [...fresh.childNodes];
  const now = [...old.childNodes];
  next.forEach((child, place) => {
    if (now[place]) patch(now[place], child);
    else old.append(document.importNode(child, true));
  });
  for (const extra of now.slice(next.length)) extra.remove();
}

async function pageAt(address, options) {
  const response = await fetch(address, options);
  // Signed out in the meantime: what came is the sign-in page.
  if (response.redirected) location.assign(response.url);
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

// Parts that are refreshed until the page says that nothing changes any more. Where the page comes from is part of the
// page: its own address may be that of a form that was sent.
function refreshLater(part) {
  const { every, from, also = "", then } = part.dataset;
  setTimeout(async () => {
    if (!document.hidden) {
      try {
        const fresh = await pageAt(from);
        const isOver = fresh.getElementById(part.id) && !fresh.getElementById(part.id).dataset.every;
        if (isOver && then === "open") return location.assign(from);
        for (const id of [part.id, ...also.split(" ")]) {
          const [old, its] = [document.getElementById(id), fresh.getElementById(id)];
          if (old && its) patch(old, its);
        }
      } catch {
        // The server cannot be reached; it may be the next time.
      }
    }
    const again = document.getElementById(part.id);
    if (again?.dataset.every) refreshLater(again);
  }, every * 1000);
}
for (const part of document.querySelectorAll("[data-every]")) refreshLater(part);

// Buttons that send their form, and show a part of the answer on this page.
for (const button of document.querySelectorAll("button[data-posts]")) {
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const body = new URLSearchParams(new FormData(button.form));
      const answer = await pageAt(button.dataset.posts, { method: "POST", body });
      const shown = answer.getElementById(button.dataset.shows);
      if (shown) document.getElementById(button.dataset.in).replaceChildren(document.importNode(shown, true));
      else button.form.requestSubmit();
    } finally {
      button.disabled = false;
    }
  });
}
