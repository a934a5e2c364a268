// Puts the code of an email's link into its field. Submits some forms automatically. Prevents concurrent
// submissions of the same form.
whenShown(() => {
  const field = document.querySelector("[data-code]");
  const given = /^#code=([0-9a-f]{32}|[0-9a-f]{64})$/.exec(location.hash)?.[1];
  // Keeps a code until its person has signed in.
  const code = given ?? sessionStorage.getItem("code");
  if (code !== null && field !== null && Number(field.dataset.code || 32) === code.length) {
    field.value = code;
    sessionStorage.removeItem("code");
  } else if (given !== undefined) {
    sessionStorage.setItem("code", given);
  }
  if (given !== undefined) history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("form[data-at-once]")?.requestSubmit();
});
addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent !== undefined) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "";
  setTimeout(() => delete form.dataset.sent, 5_000);
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// Buttons that copy a text, or save it as a file. They are hidden without scripts.
whenShown(() => {
  const show = () => {
    for (const button of document.querySelectorAll("[data-copy][hidden], [data-download][hidden]")) {
      button.hidden = false;
    }
  };
  const said = (button) => {
    const { textContent } = button;
    button.textContent = button.dataset.done;
    setTimeout(() => {
      button.textContent = textContent;
    }, 2_000);
  };
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest?.("[data-copy], [data-download]");
    if (button === null || button === undefined) return;
    const { copy, download, file } = button.dataset;
    const text = document.getElementById(copy ?? download)?.textContent ?? "";
    if (copy !== undefined) {
      await navigator.clipboard.writeText(text);
      if (button.textContent !== button.dataset.done) said(button);
      return;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = file;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  document.addEventListener("htmx:after:swap", show);
  show();
});
