import { parse } from "yaml";
import { z } from "zod";
import { CUSTOM_FORM, isRegistrableScope } from "../protocol/documents/allowed_scopes.ts";

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

/** The binding of one namespace, or why its entry cannot be used. A faulty entry binds nothing. */
export type Binding = { tenant: Tenant; fault?: never } | { tenant?: never; fault: string };

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
 * Reads the ConfigMap's data: each key is a namespace, each value YAML with `accountEmail` and, if wanted,
 * `ceiling`, `approvers` and `fourEyes`. A faulty entry spoils no other.
 */
export function parseTenants(data: Readonly<Record<string, string>>): Map<string, Binding> {
  return new Map(Object.entries(data).map(([namespace, text]) => [namespace, parseEntry(text)]));
}

function parseEntry(text: string): Binding {
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
