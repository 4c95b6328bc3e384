"use strict";
(() => {
  const form = document.getElementById("labelling");
  const saved = document.querySelector("[data-saved]");
  const name = (result) => `rag-monitor draft ${result}`;
  const store = (work) => { try { return work(window.localStorage); } catch { return null; } };
  if (saved) store((kept) => kept.removeItem(name(saved.dataset.saved)));
  if (!form) return;
  const comment = form.elements.comment, level = form.elements.level, key = name(form.dataset.result);
  if (!comment.value) comment.value = store((kept) => kept.getItem(key)) || "";
  comment.addEventListener("input", () => store((kept) => kept.setItem(key, comment.value)));
  let sent = false;
  form.addEventListener("submit", (event) => { if (sent) event.preventDefault(); sent = true; });
  window.addEventListener("pageshow", () => { sent = false; });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.activeElement) { document.activeElement.blur(); return; }
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing) return;
    if (event.target.closest && event.target.closest("input, textarea, select")) return;
    const pressed = event.key.toLowerCase();
    const button = [...form.querySelectorAll("button[accesskey]")].find((one) => one.accessKey === pressed || event.code === `Key${one.accessKey.toUpperCase()}`);
    if (button) { event.preventDefault(); button.click(); }
    else if (pressed === "n") { event.preventDefault(); comment.focus(); }
    else if (level && /^[0-9]$/.test(pressed) && Number(pressed) < level.options.length) level.selectedIndex = Number(pressed);
  });
})();
