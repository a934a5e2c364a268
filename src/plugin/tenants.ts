import { CUSTOM_FORM, isRegistrableScope } from "../protocol/documents/scopes.ts";

/** A ConfigMap that binds namespaces. */
export type TenantsMap = {
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  data?: Record<string, string>;
};

const MEMBERS = ["accountEmail", "ceiling", "approvers", "fourEyes"];
const MOST = 64;

/** What is wrong with an entry, decoded from its YAML: the sentences for people; none when it binds. */
export function entryFaults(entry: unknown): string[] {
  if (typeof entry !== "object" || entry === null || Array.isArray(entry)) {
    return ["the entry is no object: write accountEmail: <address>"];
  }
  const { accountEmail, ceiling, approvers, fourEyes, ...others } = entry as Record<string, unknown>;
  const faults = Object.keys(others).map((name) => `${name}: unknown; there are ${MEMBERS.join(", ")}`);
  if (!isAddress(accountEmail)) faults.push("accountEmail: is required, an e-mail address");
  if (ceiling !== undefined) faults.push(...ceilingFaults(ceiling));
  if (approvers !== undefined && !isTexts(approvers, 253)) {
    faults.push(`approvers: a list of at most ${MOST} user names`);
  }
  if (fourEyes !== undefined && typeof fourEyes !== "boolean") faults.push("fourEyes: true or false");
  return faults;
}

function isAddress(value: unknown): boolean {
  return typeof value === "string" && value.length <= 320 && /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(value);
}

function isTexts(value: unknown, longest: number): value is string[] {
  if (!Array.isArray(value) || value.length > MOST) return false;
  return value.every((each) => typeof each === "string" && each.length >= 1 && each.length <= longest);
}

function ceilingFaults(ceiling: unknown): string[] {
  if (!Array.isArray(ceiling) || ceiling.length === 0 || ceiling.length > MOST) {
    return [`ceiling: a list of 1 to ${MOST} scopes; leave it out for none`];
  }
  return ceiling
    .filter((scope) => typeof scope !== "string" || !isRegistrableScope(scope))
    .map(
      (scope) =>
        `ceiling: ${JSON.stringify(scope)} is neither in the vocabulary nor ${CUSTOM_FORM} of two to four parts`,
    );
}
