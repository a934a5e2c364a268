// Announces the end of the session, and renews it without leaving the page or losing what was typed.
whenShown(() => {
  const bar = document.querySelector("[data-session-seconds]");
  if (bar === null) return;
  const text = bar.querySelector("[data-session-text]");
  const button = bar.querySelector("[data-session-renew]");
  const soon = text.textContent;
  const timers = [];
  const set = (state) => {
    bar.classList.remove("on", "off");
    bar.classList.add(state);
  };
  const plan = (seconds) => {
    for (const timer of timers.splice(0)) clearTimeout(timer);
    set("off");
    timers.push(
      setTimeout(
        () => {
          text.textContent = soon;
          set("on");
        },
        Math.max(0, seconds - 120) * 1000,
      ),
      setTimeout(() => {
        text.textContent = bar.dataset.over;
        set("on");
      }, seconds * 1000),
    );
  };
  const csrfCookie = () => /(?:^|; )([a-z0-9-]+)_csrf=([^;]*)/.exec(document.cookie);
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    const [, word = "service", token = ""] = csrfCookie() ?? [];
    const answer = await fetch(bar.dataset.renew, {
      method: "POST",
      headers: { [`x-${word}-csrf`]: token },
    }).catch(() => undefined);
    if (answer?.ok !== true) {
      open(button.href, "_blank", "noopener");
      return;
    }
    await answer.json();
    const [, , renewed = ""] = csrfCookie() ?? [];
    for (const field of document.querySelectorAll('input[name="csrf"]')) {
      if (field.value === token) field.value = renewed;
    }
    text.textContent = bar.dataset.renewed;
    setTimeout(() => plan(13 * 60 + 50), 5_000);
  });
  plan(Number(bar.dataset.sessionSeconds));
});
