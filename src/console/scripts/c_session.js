// Announces the end of the session, and renews it without leaving the page or losing what was typed.
const SESSION_SECONDS = 13 * 60 + 50;
const RENEWED_BELOW_MS = 10 * 60_000;
const QUIET_MS = 2_000;
const AGAIN_MS = 60_000;
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
  let endsAt = 0;
  const plan = (seconds) => {
    endsAt = performance.now() + seconds * 1000;
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
  let held = document.querySelector('input[name="csrf"]')?.value;
  // This tab or another may have renewed the session since the page was made.
  const useNewToken = () => {
    const [, , token = held] = csrfCookie() ?? [];
    for (const field of document.querySelectorAll('input[name="csrf"]')) {
      if (field.value === held) field.value = token;
    }
    held = token;
  };
  const ask = async () => {
    const [, word = "service", token = ""] = csrfCookie() ?? [];
    const answer = await fetch(bar.dataset.renew, {
      method: "POST",
      headers: { [`x-${word}-csrf`]: token },
      // The new cookies must arrive even if the person leaves the page.
      keepalive: true,
    }).catch(() => undefined);
    if (answer?.ok !== true) return false;
    await answer.json();
    useNewToken();
    return true;
  };
  let renewing;
  const renew = () => {
    renewing ??= ask().finally(() => {
      renewing = undefined;
    });
    return renewing;
  };
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    if (!(await renew())) {
      open(button.href, "_blank", "noopener");
      return;
    }
    text.textContent = bar.dataset.renewed;
    setTimeout(() => plan(SESSION_SECONDS), 5_000);
  });
  // Renews the session soon after the person does something, unless they leave the page first.
  let waits;
  const work = ({ target } = {}) => {
    const left = endsAt - performance.now();
    if (waits !== undefined || left <= 0 || left > RENEWED_BELOW_MS || bar.contains(target)) return;
    waits = setTimeout(async () => {
      if (await renew()) plan(SESSION_SECONDS);
      waits = setTimeout(() => {
        waits = undefined;
      }, AGAIN_MS);
    }, QUIET_MS);
  };
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, work, { passive: true });
  addEventListener(
    "submit",
    (event) => {
      const { target: form, submitter } = event;
      useNewToken();
      if (renewing === undefined) return;
      // A renewal ends the old token, so the form waits for the new one.
      event.preventDefault();
      event.stopImmediatePropagation();
      renewing.finally(() => form.requestSubmit(submitter));
    },
    { capture: true },
  );
  plan(Number(bar.dataset.sessionSeconds));
  work();
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
