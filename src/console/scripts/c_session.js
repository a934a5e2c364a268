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
  const csrfCookie = () =>
    /(?:^|; )__Host-([a-z0-9-]+)_csrf=([^;]*)/.exec(document.cookie) ??
    /(?:^|; )([a-z0-9-]+)_csrf=([^;]*)/.exec(document.cookie);
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

// Counts down the seconds that were left when the page was created, because the reader's own clock may be wrong.
(() => {
  const pair = (number) => String(number).padStart(2, "0");
  const begun = performance.now();
  const count = () => {
    const counted = document.querySelectorAll("[data-countdown]");
    for (const element of counted) {
      const { countdown, left, over } = element.dataset;
      const seconds = Math.ceil(Number(countdown) - (performance.now() - begun) / 1_000);
      const clock = `${Math.floor(seconds / 3600)}:${pair(Math.floor(seconds / 60) % 60)}:${pair(seconds % 60)}`;
      element.textContent = seconds > 0 ? left.replace("{time}", clock) : over;
    }
    if (counted.length > 0) setTimeout(count, 1_000);
  };
  whenShown(count);
})();
