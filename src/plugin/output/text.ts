/** What hides, turns or moves text on a terminal: controls, marks of direction, what has no width. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u115f\u1160\u3164\uffa0]/gu;

/** A text from the cluster as it may be shown: what would hide or turn it is written out. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u{${code.toString(16)}}`;
  });
}

const UNITS: readonly [name: string, seconds: number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** A length of time in its largest unit, as `kubectl get` writes ages: `3d`, `5h`, `40m`, `12s`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [name, size] = UNITS.find(([, size]) => seconds >= size * 2) ?? ["s", 1];
  return `${Math.floor(seconds / size)}${name}`;
}

/** A moment seen from now: `in 3d`, `5h ago`. */
export function relative(time: string | undefined, now: Date): string {
  const ms = Date.parse(time ?? "") - now.getTime();
  if (Number.isNaN(ms)) return "";
  return ms >= 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}
