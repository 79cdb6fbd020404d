// Copy buttons. Every page is whole without this: the buttons stay hidden, and what they would copy can be selected.
"use strict";

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
      label.textContent = "Select and copy by hand";
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
