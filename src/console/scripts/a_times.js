// Runs a function after the page is drawn, so that reading never waits for scripts. A background page is
// never drawn.
const whenShown = (run) => {
  if (document.hidden) setTimeout(run);
  else requestAnimationFrame(() => setTimeout(run));
};

// Shows times in the reader's zone. The machine-readable time, and UTC on hovering, stay unchanged.
whenShown(() => {
  const { lang } = document.documentElement;
  const own = navigator.languages.find((language) => language.startsWith(`${lang}-`));
  const date = { day: "numeric", month: "short", year: "numeric" };
  const formatOf = (parts) => new Intl.DateTimeFormat(own ?? (lang === "en" ? "en-GB" : lang), parts);
  const day = formatOf(date);
  const moment = formatOf({ ...date, hour: "2-digit", minute: "2-digit" });
  const show = (root) => {
    for (const element of root.querySelectorAll("time[datetime]:not([title])")) {
      element.title = element.textContent;
      const format = element.dataset.day === undefined ? moment : day;
      element.textContent = format.format(new Date(element.dateTime));
    }
  };
  addEventListener("htmx:after:swap", () => show(document));
  show(document);
});

// Date and time fields use the reader's zone, and send the zone.
whenShown(() => {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const two = (number) => String(number).padStart(2, "0");
  const localOf = (at) =>
    `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
  for (const field of document.querySelectorAll("[data-moment]")) {
    if (field.defaultValue !== "") field.value = localOf(new Date(`${field.defaultValue}Z`));
    const label = document.querySelector(`label[for="${field.id}"]`);
    label.textContent = field.dataset.moment.replace("{zone}", timeZone);
    field.form.addEventListener("formdata", ({ formData }) => {
      const at = new Date(field.value);
      formData.set(field.name, Number.isNaN(at.getTime()) ? "" : at.toISOString());
    });
  }
});
