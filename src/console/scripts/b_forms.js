// Forms: the code of a mail's link goes into its field, some forms are sent by themselves, none twice at once.
addEventListener("DOMContentLoaded", () => {
  const field = document.querySelector("[data-code]");
  const code = /^#code=([0-9a-f]{32})$/.exec(location.hash)?.[1];
  if (field !== null && code !== undefined) {
    field.value = code;
    history.replaceState(null, "", location.pathname + location.search);
  }
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
