// Shows a note when a part of the page could not be updated. The next successful answer hides it.
const sayStale = (target, isStale) => {
  const note = target.closest?.("[hx-get]")?.querySelector("[data-stale]");
  if (note) note.hidden = !isStale;
};
addEventListener("htmx:error", ({ target }) => sayStale(target, true));
addEventListener("htmx:after:request", ({ target, detail }) =>
  sayStale(target, detail.ctx.response.status >= 400),
);

// Updates a list while its page is visible, and shows the number of new entries. A button stops the updates.
whenShown(() => {
  const button = document.querySelector("[data-tail]");
  if (button === null) return;
  const news = document.querySelector("[data-tail-news]");
  const rows = () => [...document.querySelectorAll("[data-row]")].map(({ dataset }) => dataset.row);
  let known = new Set(rows());
  let on = true;
  const ask = () => {
    if (on && !document.hidden)
      document.getElementById(button.dataset.tail)?.dispatchEvent(new Event("tail"));
  };
  button.hidden = false;
  document.querySelector("[data-tail-link]").hidden = true;
  button.addEventListener("click", () => {
    on = !on;
    button.textContent = on ? button.dataset.on : button.dataset.off;
    ask();
  });
  document.addEventListener("visibilitychange", ask);
  document.addEventListener("htmx:after:swap", () => {
    const now = rows();
    const fresh = now.filter((row) => !known.has(row)).length;
    known = new Set([...known, ...now]);
    if (fresh > 0) news.textContent = `${news.dataset.tailNews} ${fresh}`;
  });
  setInterval(ask, 4_000);
});

// Loads htmx after the page is shown, and only if a part of the page updates itself.
(() => {
  const { htmx } = document.currentScript.dataset;
  addEventListener("load", () => {
    if (document.querySelector("[hx-get], [hx-post]") === null) return;
    const script = document.createElement("script");
    script.src = htmx;
    document.head.append(script);
  });
})();
