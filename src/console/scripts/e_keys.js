// Keyboard shortcuts: `?` shows them, `/` leads to the search, and `g` with a letter opens a page. The person
// can switch them off in this browser, because they can interfere with speech input. A `g` counts for a moment.
const AFTER_G_MS = 1_500;
whenShown(() => {
  const help = document.getElementById("keys");
  const isOn = help?.querySelector("[data-keys]");
  if (!help || !isOn) return;
  isOn.checked = localStorage.getItem("keys") !== "off";
  isOn.addEventListener("change", () => localStorage.setItem("keys", isOn.checked ? "on" : "off"));
  let pressedG = Number.NEGATIVE_INFINITY;
  addEventListener("keydown", (event) => {
    const { key, target, ctrlKey, metaKey, altKey, defaultPrevented } = event;
    const isAfterG = event.timeStamp - pressedG < AFTER_G_MS;
    pressedG = Number.NEGATIVE_INFINITY;
    const isTyping = target.closest?.("input, textarea, select, [contenteditable]");
    if (!isOn.checked || isTyping || ctrlKey || metaKey || altKey || defaultPrevented) return;
    const link = isAfterG && document.querySelector(`nav [data-letter="${CSS.escape(key)}"] a`);
    if (link) link.click();
    else if (key === "g") pressedG = event.timeStamp;
    else if (key === "?") help.togglePopover();
    else if (key === "/") {
      const field = document.querySelector('main input[type="search"]');
      if (!field) return;
      event.preventDefault();
      field.focus();
    }
  });
});

// A search that hides the choices of a field that do not contain the text. It needs scripts.
whenShown(() => {
  for (const search of document.querySelectorAll("[data-narrows]")) {
    const groups = [...document.getElementById(search.dataset.narrows).querySelectorAll("details")];
    const wereOpen = new Map(groups.map((group) => [group, group.open]));
    search.addEventListener("input", () => {
      const wanted = search.value.trim().toLowerCase();
      for (const group of groups) {
        const choices = [...group.querySelectorAll("label")];
        for (const choice of choices) {
          choice.hidden = wanted !== "" && !choice.textContent.toLowerCase().includes(wanted);
        }
        group.hidden = choices.every((choice) => choice.hidden);
        group.open = wanted === "" ? wereOpen.get(group) : !group.hidden;
      }
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault();
    });
  }
});
