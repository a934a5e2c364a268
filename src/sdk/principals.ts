/** Accepted root ids: 32 lower-case hex digits each. An empty list accepts nobody. */
export type Principals = readonly string[] | ReadonlySet<string>;

/** The accepted principals, or a function that returns them for each request. */
export type PrincipalsSetting = Principals | (() => Principals | Promise<Principals>);

/** Returns the accepted root ids. Rejects if the application's function fails or returns anything else. */
export type AcceptedPrincipals = () => Promise<ReadonlySet<string>>;

const ROOT_ID = /^[0-9a-f]{32}$/;

/**
 * Converts the setting, a list or a function, to a function. A list is checked and copied now. The result of
 * a function is checked at each call. Returns `undefined` if the setting is absent. Throws TypeError if the
 * setting is neither a list nor a function, or if an id in the list is not a root id.
 */
export function readPrincipals(setting: PrincipalsSetting | undefined): AcceptedPrincipals | undefined {
  if (setting === undefined) return undefined;
  if (typeof setting === "function") return async () => rootIds(await setting());
  const accepted = rootIds(setting);
  return async () => accepted;
}

function rootIds(value: unknown): ReadonlySet<string> {
  if (!Array.isArray(value) && !(value instanceof Set)) {
    throw new TypeError("principals: must be an array or Set of root ids, or a function that returns one");
  }
  const ids = new Set<string>();
  for (const id of value) {
    if (typeof id !== "string" || !ROOT_ID.test(id)) {
      throw new TypeError("principals: root ids have 32 lower-case hex digits");
    }
    ids.add(id);
  }
  return ids;
}
