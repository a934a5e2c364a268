// Buttons that copy a text, or keep it as a file. They are hidden where scripts do not run.
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
