// Runs something once the page is drawn: nobody waits for a script to read. A page in the background is not drawn.
// biome-ignore lint/correctness/noUnusedVariables: the files are sent as one, this first
const whenShown = (run) => {
  if (document.hidden) setTimeout(run);
  else requestAnimationFrame(() => setTimeout(run));
};
