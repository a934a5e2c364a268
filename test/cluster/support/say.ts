const began = performance.now();

/** Prints lines with the seconds since the start of the suite. */
export function say(...lines: string[]): void {
  const at = `${((performance.now() - began) / 1000).toFixed(0)} s`.padStart(7);
  for (const line of lines) console.log(`${at}  ${line}`);
}
