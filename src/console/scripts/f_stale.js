// Says when a part of the page could not be brought up to date; the next answer that comes does not say it.
const sayStale = (target, isStale) => {
  const note = target.closest?.("[hx-get]")?.querySelector("[data-stale]");
  if (note) note.hidden = !isStale;
};
addEventListener("htmx:error", ({ target }) => sayStale(target, true));
addEventListener("htmx:after:request", ({ target, detail }) =>
  sayStale(target, detail.ctx.response.status >= 400),
);
