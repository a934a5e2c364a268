import { parse } from "yaml";
import { z } from "zod";
import { CUSTOM_FORM, isRegistrableScope } from "../protocol/documents/scopes.ts";

/** The ConfigMap in the operator's namespace in which an administrator binds namespaces to accounts. */
export const BINDINGS_NAME = "deputize-tenants";

/** The account of a namespace, the scopes its Platforms may allow, and the users who may approve. */
export type BoundAccount = {
  accountEmail: string;
  ceiling?: string[];
  approvers?: string[];
  /** Whether the approver and the requester must be different persons. The requester must then be known. */
  fourEyes?: boolean;
};

/**
 * The binding of one namespace, or the reason why its entry is invalid. An invalid entry binds nothing.
 * `source` names the ConfigMaps that contain the entry.
 */
export type Binding = { source: string } & (
  | { account: BoundAccount; fault?: never }
  | { account?: never; fault: string }
);

/** A ConfigMap that binds namespaces: its name and data. */
export type BindingsMap = { name: string; data: Readonly<Record<string, string>> };

/** Accepts only scopes that a Platform can have. Any other scope in a ceiling would limit nothing. */
const scope = z
  .string()
  .refine(isRegistrableScope, `is neither in the vocabulary nor ${CUSTOM_FORM} of two to four parts`);

const entry = z.strictObject({
  /** Addresses may contain letters of any script. The API decides which addresses are valid. */
  accountEmail: z
    .string()
    .max(320)
    .regex(/^[^\s@]+@[^\s@]+\.[^\s@]+$/, "is not an e-mail address"),
  ceiling: z.array(scope).min(1).max(64).optional(),
  approvers: z.array(z.string().min(1).max(253)).max(64).optional(),
  fourEyes: z.boolean().optional(),
});

/**
 * Reads namespace bindings from ConfigMaps. Each key of their data is a namespace. Its value is YAML with
 * `accountEmail` and optionally `ceiling`, `approvers` and `fourEyes`. An invalid entry does not affect other
 * entries. If two ConfigMaps contain the same namespace, neither binds it.
 */
export function bindingsOf(maps: readonly BindingsMap[]): Map<string, Binding> {
  const sources = new Map<string, string[]>();
  const bindings = new Map<string, Binding>();
  for (const { name, data } of maps) {
    for (const [namespace, text] of Object.entries(data)) {
      sources.set(namespace, [...(sources.get(namespace) ?? []), name]);
      bindings.set(namespace, { source: name, ...parseEntry(text) });
    }
  }
  for (const [namespace, names] of sources) {
    if (names.length === 1) continue;
    const fault = "the namespace is in more than one ConfigMap";
    bindings.set(namespace, { source: names.join(" and "), fault });
  }
  return bindings;
}

function parseEntry(
  text: string,
): { account: BoundAccount; fault?: never } | { account?: never; fault: string } {
  let document: unknown;
  try {
    document = parse(text);
  } catch {
    return { fault: "the entry is not YAML" };
  }
  const result = entry.safeParse(document);
  if (!result.success) {
    const [issue] = result.error.issues;
    return { fault: [issue?.path.join("."), issue?.message].filter(Boolean).join(": ") };
  }
  const { accountEmail, ...bounds } = result.data;
  const given = Object.entries(bounds).filter(([, value]) => value !== undefined);
  return { account: { accountEmail, ...Object.fromEntries(given) } };
}
