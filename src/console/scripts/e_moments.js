// Fields for a day and a time: shown and taken in the reader's zone, and sent with a zone.
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
