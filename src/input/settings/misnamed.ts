import type { Fault } from "./start_error.ts";

/** The names of a process's own settings, and of the settings of all other roles. */
export type KnownNames = { own: readonly string[]; others: readonly string[] };

/** A variable with this prefix can only be meant for this program. */
const PREFIX = "DEPUTIZE_";
/** Variables that Kubernetes sets for each Service in a pod's namespace. */
const SERVICE_LINK =
  /_SERVICE_(?:HOST|PORT)(?:_[A-Z0-9_]+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/;
const SERVICE_PORT = /^(?:tcp|udp|sctp):\/\//;
/** Shorter names resemble each other by chance. */
const [SHORT, LONG] = [7, 12];

/**
 * Returns a fault for each variable that is not a setting but was probably meant as one. It has a misspelled
 * name or the program's prefix, or names a file for a setting that cannot come from a file.
 */
export function misnamedFaults(
  environment: Readonly<Record<string, string | undefined>>,
  { own, others }: KnownNames,
): Fault[] {
  const known = new Set([...own, ...others]);
  return Object.entries(environment).flatMap(([name, value = ""]) => {
    if (value === "" || known.has(name)) return [];
    if (SERVICE_LINK.test(name) || (name.endsWith("_PORT") && SERVICE_PORT.test(value))) return [];
    const message = faultOf(name, own);
    return message === undefined ? [] : [{ name, message }];
  });
}

function faultOf(name: string, own: readonly string[]): string | undefined {
  const base = name.replace(/_FILE$/, "");
  if (base !== name && own.includes(base)) {
    return `is not a setting: ${base} cannot come from a file, so set ${base} itself`;
  }
  const bare = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;
  const meant = own.find((each) => each === bare) ?? nearest(bare, own);
  if (meant !== undefined) return `is not a setting: did you mean ${meant}?`;
  return bare === name ? undefined : "is not a setting: remove it";
}

/** Returns the most similar name, if it is similar enough. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((each) => ({ each, distance: distanceOfNames(name, each) }))
    .filter(({ each, distance }) => distance <= toleranceOf(each))
    .sort((a, b) => a.distance - b.distance);
  return best?.each;
}

function toleranceOf({ length }: string): number {
  return length < LONG ? 1 : 2;
}

/** Case and hyphens make no difference in long names. A short name such as `port` may belong to a shell. */
function distanceOfNames(name: string, known: string): number {
  const written = known.length <= SHORT ? name : name.toUpperCase().replaceAll(/[-.]/g, "_");
  return editDistance(singular(written), singular(known));
}

function singular(name: string): string {
  return name.replace(/IES$/, "Y");
}

/** Returns how many characters to insert, delete, replace or swap with a neighbor. */
export function editDistance(from: string, to: string): number {
  let [before, row] = [[] as number[], Array.from({ length: to.length + 1 }, (_, n) => n)];
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = at(row, j - 1) + (from[i - 1] === to[j - 1] ? 0 : 1);
      const isSwap = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwap ? at(before, j - 2) + 1 : replaced;
      next.push(Math.min(at(row, j) + 1, at(next, j - 1) + 1, replaced, swapped));
    }
    [before, row] = [row, next];
  }
  return at(row, to.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
