// Fetches htmx once a page is shown, and only where something on it is brought up to date.
(() => {
  const { htmx } = document.currentScript.dataset;
  addEventListener("load", () => {
    if (document.querySelector("[hx-get], [hx-post]") === null) return;
    const script = document.createElement("script");
    script.src = htmx;
    document.head.append(script);
  });
})();
