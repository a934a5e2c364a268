// Shows times in the reader's zone; the machine-readable time, and UTC on hovering, stay.
whenShown(() => {
  const { lang } = document.documentElement;
  const own = navigator.languages.find((language) => language.startsWith(`${lang}-`));
  const format = new Intl.DateTimeFormat(own ?? (lang === "en" ? "en-GB" : lang), {
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
  addEventListener("htmx:after:swap", () => show(document));
  show(document);
});
