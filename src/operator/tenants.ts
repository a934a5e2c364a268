import { parse } from "yaml";
import { z } from "zod";
import { CUSTOM_FORM, isRegistrableScope } from "../protocol/documents/scopes.ts";

/**
 * Name of the ConfigMap that binds namespaces to accounts. It lies in the operator's namespace; an
 * administrator writes it.
 */
export const TENANTS_NAME = "deputize-tenants";

/**
 * What a namespace is bound to: an account, the most its Platforms may allow, and who may approve in
 * Kubernetes.
 */
export type Tenant = {
  accountEmail: string;
  ceiling?: string[];
  approvers?: string[];
  /** Whether who approves must be another person than who asked, who must be known. */
  fourEyes?: boolean;
};

/**
 * The binding of one namespace, or why its entry cannot be used. A faulty entry binds nothing. `source`: the
 * ConfigMaps that it is in.
 */
export type Binding = { source: string } & (
  | { tenant: Tenant; fault?: never }
  | { tenant?: never; fault: string }
);

/** A ConfigMap that binds namespaces. */
export type TenantsMap = { name: string; data: Readonly<Record<string, string>> };

/** In the form that a Platform's scopes have: another one would be in no Platform, and bound nothing. */
const scope = z
  .string()
  .refine(isRegistrableScope, `neither in the vocabulary nor ${CUSTOM_FORM} of two to four parts`);

const entry = z.strictObject({
  /** Letters of any script; the API knows which addresses there can be. */
  accountEmail: z
    .string()
    .max(320)
    .regex(/^[^\s@]+@[^\s@]+\.[^\s@]+$/, "is not an e-mail address"),
  ceiling: z.array(scope).min(1).max(64).optional(),
  approvers: z.array(z.string().min(1).max(253)).max(64).optional(),
  fourEyes: z.boolean().optional(),
});

/**
 * Reads ConfigMaps: in the data of each a key is a namespace, its value YAML with `accountEmail` and, if
 * wanted, `ceiling`, `approvers` and `fourEyes`. A faulty entry spoils no other. A namespace that is in two
 * ConfigMaps is bound by neither.
 */
export function bindingsOf(maps: readonly TenantsMap[]): Map<string, Binding> {
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

function parseEntry(text: string): { tenant: Tenant; fault?: never } | { tenant?: never; fault: string } {
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
  return { tenant: { accountEmail, ...Object.fromEntries(given) } };
}
