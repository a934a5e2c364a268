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
/** Words of other programs' settings that resemble words of ours. */
const OTHER_WORDS = ["SFTP", "SMPP", "APP", "APM", "POST"];

/**
 * Returns a fault for each variable that is not a setting but was probably meant as one. It has a misspelled
 * name or the program's prefix, or names a file for a setting that cannot come from a file.
 *
 * A typing error is always reported: one letter that is missing, additional or swapped with its neighbor.
 * Any other resemblance may be the name of another program's variable. It is reported only if the setting
 * itself is not set, so that such a variable does not stop the process.
 */
export function misnamedFaults(
  environment: Readonly<Record<string, string | undefined>>,
  { own, others }: KnownNames,
): Fault[] {
  const known = new Set([...own, ...others]);
  return Object.entries(environment).flatMap(([name, value = ""]) => {
    if (value === "" || known.has(name)) return [];
    if (SERVICE_LINK.test(name) || (name.endsWith("_PORT") && SERVICE_PORT.test(value))) return [];
    const isSet = (setting: string) => hasValue(environment, setting);
    const message = faultOf(name, { own, isSet });
    return message === undefined ? [] : [{ name, message }];
  });
}

/** Returns whether a setting has a value, also from a file. */
function hasValue(environment: Readonly<Record<string, string | undefined>>, setting: string): boolean {
  const base = setting.replace(/_FILE$/, "");
  return [base, `${base}_FILE`].some((name) => (environment[name] ?? "") !== "");
}

type Own = { own: readonly string[]; isSet(setting: string): boolean };

function faultOf(name: string, { own, isSet }: Own): string | undefined {
  const base = name.replace(/_FILE$/, "");
  if (base !== name && own.includes(base)) {
    return `is not a setting: ${base} cannot come from a file, so set ${base} itself`;
  }
  const bare = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;
  const meant = own.find((each) => each === bare) ?? nearest(bare, { own, isSet });
  if (meant !== undefined) return `is not a setting: did you mean ${meant}?`;
  return bare === name ? undefined : "is not a setting: remove it";
}

/** Returns the most similar name that is not set, or of which `name` is a typing error. */
function nearest(name: string, { own, isSet }: Own): string | undefined {
  const [best] = own
    .map((each) => ({ each, distance: distanceOfNames(name, each) }))
    .filter(({ each, distance }) => distance <= toleranceOf(each))
    .filter(({ each }) => isTypingError(name, each) || (!isSet(each) && !isOtherName(name, each)))
    .sort((a, b) => a.distance - b.distance);
  return best?.each;
}

/** Returns whether the names differ in at most one letter, which is not replaced by another letter. */
function isTypingError(name: string, known: string): boolean {
  const [from, to] = comparable(name, known);
  if (to.length <= SHORT && (from === `${to}S` || to === `${from}S`)) return false;
  return from.length !== to.length ? editDistance(from, to) <= 1 : isSwapped(from, to);
}

/** Returns whether two names of equal length are the same, apart from two neighbors that are swapped. */
function isSwapped(from: string, to: string): boolean {
  const first = [...from].findIndex((letter, index) => letter !== to[index]);
  if (first === -1) return true;
  const [one, other] = [from[first] ?? "", from[first + 1] ?? ""];
  return to === `${from.slice(0, first)}${other}${one}${from.slice(first + 2)}`;
}

/** Returns whether a name is too short to compare, or has a word of other programs. */
function isOtherName(name: string, known: string): boolean {
  return known.length <= SHORT || name.split("_").some((word) => OTHER_WORDS.includes(word));
}

function toleranceOf({ length }: string): number {
  return length < LONG ? 1 : 2;
}

function distanceOfNames(name: string, known: string): number {
  return editDistance(...comparable(name, known));
}

/** Case and hyphens make no difference in long names. A short name such as `port` may belong to a shell. */
function comparable(name: string, known: string): [from: string, to: string] {
  const written = known.length <= SHORT ? name : name.toUpperCase().replaceAll(/[-.]/g, "_");
  return [singular(written), singular(known)];
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
