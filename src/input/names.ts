import type { CookieName } from "../route.ts";

/** Names of paths, headers and cookies in HTTP messages, with the service name or one of its aliases. */
export type Names = {
  /** The configured service name, which replaces `service` in names. */
  word: string;
  /** Returns every path of a route: with the service name and each alias instead of the segment `service`. */
  paths(path: string): string[];
  /** Returns the accepted lower-case names of a header. Only `x-service-…` headers have more than one. */
  headers(name: string): readonly string[];
  /** Returns a header's name in the usual capitalization, with the service name. */
  header(name: string): string;
  /** Returns a cookie's name. It always contains the service name, never an alias. */
  cookie(name: CookieName): string;
};

const PREFIX = "x-service-";

/** Creates the names for the service name `word` and its `aliases`. */
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
