// Forms: the code of a mail's link goes into its field, some forms are sent by themselves, none twice at once.
whenShown(() => {
  const field = document.querySelector("[data-code]");
  const given = /^#code=([0-9a-f]{32}|[0-9a-f]{64})$/.exec(location.hash)?.[1];
  // A code that waits until its person has signed in.
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
