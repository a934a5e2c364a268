// Runs a function after the page is drawn, so that reading never waits for scripts. A background page is
// never drawn.
const whenShown = (run) => {
  if (document.hidden) setTimeout(run);
  else requestAnimationFrame(() => setTimeout(run));
};

// Choices that this browser keeps. In a browser that stores nothing, they last as long as the page.
const keptChoice = {
  read(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  write(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      // The choice lasts as long as the page.
    }
  },
};

// Shows times in the reader's zone, or in UTC if the reader chose this. The machine-readable time stays
// unchanged, and the tooltip shows UTC.
whenShown(() => {
  const { lang } = document.documentElement;
  const own = navigator.languages.find((language) => language.startsWith(`${lang}-`));
  const date = { day: "numeric", month: "short", year: "numeric" };
  const formatOf = (parts) => new Intl.DateTimeFormat(own ?? (lang === "en" ? "en-GB" : lang), parts);
  const day = formatOf(date);
  const moment = formatOf({ ...date, hour: "2-digit", minute: "2-digit" });
  const second = formatOf({ ...date, hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const formatFor = ({ day: isDay, seconds }) =>
    isDay !== undefined ? day : seconds !== undefined ? second : moment;
  let inUtc = keptChoice.read("utc") === "on";
  const show = () => {
    for (const element of document.querySelectorAll("time[datetime]")) {
      if (element.title === "") element.title = element.textContent;
      element.textContent = inUtc
        ? element.title
        : formatFor(element.dataset).format(new Date(element.dateTime));
    }
    for (const button of document.querySelectorAll("[data-zone]")) {
      button.hidden = false;
      button.textContent = inUtc ? button.dataset.own : button.dataset.utc;
    }
  };
  addEventListener("htmx:after:swap", show);
  addEventListener("click", ({ target }) => {
    if (target.closest?.("[data-zone]") == null) return;
    inUtc = !inUtc;
    keptChoice.write("utc", inUtc ? "on" : "off");
    show();
  });
  show();
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
