import type { CookieName } from "../route.ts";

/** How paths, headers and cookies are called on the wire: they carry the service's word and its aliases. */
export type Names = {
  /** The service's word. */
  word: string;
  /**
   * Every path at which a route's path is served: with the segment `service` read as the word and as each
   * alias.
   */
  paths(path: string): string[];
  /** The lower-case names that a header may have; only `x-service-…` has more than one. */
  headers(name: string): readonly string[];
  /** A header's name as people read it, under the word. */
  header(name: string): string;
  /** A cookie's name; only the word itself names cookies, aliases do not. */
  cookie(name: CookieName): string;
};

const PREFIX = "x-service-";

/** Names under `word` and its `aliases`. */
export function createNames(word: string, aliases: readonly string[] = []): Names {
  const words = [...new Set([word, ...aliases])];
  const known = new Map<string, readonly string[]>();
  return {
    word,
    paths(path) {
      const named = words.map((each) => path.replaceAll(/(?<=\/)service(?=\/|$)/g, each));
      return [...new Set(named)];
    },
    headers(name) {
      const remembered = known.get(name);
      if (remembered !== undefined) return remembered;
      const names = name.startsWith(PREFIX)
        ? words.map((each) => `x-${each}-${name.slice(PREFIX.length)}`)
        : [name];
      known.set(name, names);
      return names;
    },
    header: (name) => name.replace(/^X-Service-/, `X-${capitalized(word)}-`),
    cookie: (name) => `${word}_${name}`,
  };
}

function capitalized(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
