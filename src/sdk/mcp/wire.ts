import { isPlain } from "./rules.ts";

/** The name of the proof in `params._meta`, of a refusal in a result's `_meta`, and of the capability. */
export const AUTHORITY = "io.deputize/authority";

/** A name without `/`, so that no two servers can have the same action `<server>/<tool>`. */
const SERVER_NAME = /^[A-Za-z0-9][\w.-]{0,63}$/;

/** Methods that read no content and do nothing. They need no proof. */
export const OPEN_METHODS: readonly string[] = [
  ...["initialize", "ping", "server/discover", "logging/setLevel"],
  ...["tools/list", "prompts/list", "resources/list", "resources/templates/list"],
];

/** Returns the action of a call. Throws TypeError for a name of a server that could hide a tool's name. */
export function actionsOf(server: string): (tool: string) => string {
  if (typeof server !== "string" || !SERVER_NAME.test(server)) {
    throw new TypeError("server: must have 1 to 64 letters, digits, _, . or -, and no /");
  }
  return (tool) => `${server}/${tool}`;
}

/** All input of a tool call, to which its proof is bound. */
export type CallInput = { arguments: unknown; inputResponses?: unknown };

/** Returns the payload of a call. Absent arguments are an empty object. */
export function inputOf(given: unknown, inputResponses: unknown): CallInput {
  return { arguments: given ?? {}, ...(inputResponses !== undefined && { inputResponses }) };
}

/** Returns `_meta` without the entry of {@link AUTHORITY}, which belongs to one call only. */
export function withoutAuthority(meta: unknown): Record<string, unknown> | undefined {
  if (!isPlain(meta)) return undefined;
  const { [AUTHORITY]: _, ...others } = meta;
  return others;
}

/** Returns the entry of {@link AUTHORITY} in `_meta`, or an empty object. */
export function authorityIn(meta: unknown): Readonly<Record<string, unknown>> {
  const entry = isPlain(meta) && Object.hasOwn(meta, AUTHORITY) ? meta[AUTHORITY] : undefined;
  return isPlain(entry) ? entry : {};
}

/**
 * Returns the id that the caller gave to its call. An entry with any other member comes from another call,
 * and counts as none.
 */
export function nameIn(meta: unknown): string | undefined {
  const { invocation_id: named, ...others } = authorityIn(meta);
  return typeof named === "string" && Object.keys(others).length === 0 ? named : undefined;
}
