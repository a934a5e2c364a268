// Counts down the seconds that were left when the page was made; the reader's own clock may be wrong.
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
