// Shows times in the reader's zone; the machine-readable time, and UTC on hovering, stay.
(() => {
  const format = new Intl.DateTimeFormat(document.documentElement.lang, {
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
  });
  const show = (root) => {
    for (const element of root.querySelectorAll("time[datetime]:not([title])")) {
      element.title = element.textContent;
      element.textContent = format.format(new Date(element.dateTime));
    }
  };
  addEventListener("DOMContentLoaded", () => show(document));
  addEventListener("htmx:after:swap", () => show(document));
})();
