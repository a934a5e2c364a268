import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { CustomObjectsApi } from "@kubernetes/client-node";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { canonicalBytes } from "../protocol/encoding/canonical.ts";
import { isStatus } from "./cluster_error.ts";

/**
 * The result of comparing the admission policies of a cluster with `crds/policies.yaml`: they are equal, or
 * `fault` names the policy that is missing or altered.
 *
 * `hash` is a hash over the content, equal wherever the same file is applied for the same operator.
 * `revision` is a hash over the objects' identities, so it also differs after a change that was undone. Since
 * `since`, every API server has enforced the policies in this form. Compare it with the creation time of a
 * guarded object, not with times in `managedFields`, which the object's writers control.
 */
export type PoliciesVerdict =
  | { hash: string; revision: string; since: Date; fault?: never }
  | { hash?: never; revision?: never; since?: never; fault: string };

/** The operator's user in `crds/policies.yaml`. */
export const DEFAULT_OPERATOR = "system:serviceaccount:deputize-system:deputize-operator";

const FILE = join(import.meta.dirname, "../../crds/policies.yaml");
/**
 * Time after which every API server of a cluster enforces a new or changed policy. A single API server takes
 * half a second.
 */
const ENFORCED_MS = 10_000;
const RESOURCES = {
  ValidatingAdmissionPolicy: "validatingadmissionpolicies",
  ValidatingAdmissionPolicyBinding: "validatingadmissionpolicybindings",
} as const;

/** The part of a cluster client that `checkPolicies` needs. */
export type PolicyReader = { custom: Pick<CustomObjectsApi, "getClusterCustomObject"> };

const document = z.object({
  kind: z.enum(["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]),
  metadata: z.object({ name: z.string() }),
  spec: z.record(z.string(), z.unknown()),
});
type Policy = z.infer<typeof document>;

const liveObject = z.object({
  metadata: z.object({
    uid: z.string(),
    generation: z.int(),
    creationTimestamp: z.iso.datetime(),
    deletionTimestamp: z.string().optional(),
    managedFields: z
      .array(
        z.object({
          time: z.iso.datetime().optional(),
          subresource: z.string().optional(),
          fieldsV1: z.record(z.string(), z.unknown()).optional(),
        }),
      )
      .default([]),
  }),
  spec: z.record(z.string(), z.unknown()),
});
type Live = z.infer<typeof liveObject>;

/**
 * Compares the policies and their bindings in a cluster with `crds/policies.yaml`, in which `operator`
 * replaces the operator's user. Rejects if the cluster does not answer.
 */
export async function checkPolicies(
  client: PolicyReader,
  { operator }: { operator: string },
): Promise<PoliciesVerdict> {
  const wanted = await readPolicies(operator);
  const found = await Promise.all(
    wanted.map(async (policy) => ({ policy, live: await readLive(client, policy) })),
  );
  const times: number[] = [];
  const revisions: object[] = [];
  for (const { policy, live } of found) {
    const fault = faultOf(policy, live);
    if (fault !== undefined || live === undefined) return { fault: `${nameOf(policy)} ${fault}` };
    times.push(lastChange(live));
    revisions.push({ uid: live.metadata.uid, generation: live.metadata.generation });
  }
  const specs = found.map(({ policy, live }) => ({ name: nameOf(policy), spec: live?.spec }));
  return {
    hash: hashOf(specs),
    revision: hashOf(revisions),
    since: new Date(Math.max(...times) + ENFORCED_MS),
  };
}

function hashOf(value: object[]): string {
  return hash("sha256", canonicalBytes(value), "hex");
}

/** Reads the policies of the file in the form in which an API server stores them. */
async function readPolicies(operator: string): Promise<Policy[]> {
  const documents = parseAllDocuments(await readFile(FILE, "utf8")).map((each) => each.toJS());
  const name = JSON.stringify(operator).slice(1, -1);
  const text = JSON.stringify(documents).replaceAll(DEFAULT_OPERATOR, () => name);
  return z.array(document).parse(JSON.parse(text)).map(withDefaults);
}

function withDefaults(policy: Policy): Policy {
  const { matchConstraints } = policy.spec as { matchConstraints?: { resourceRules: object[] } };
  if (matchConstraints === undefined) return policy;
  const resourceRules = matchConstraints.resourceRules.map((rule) => ({ scope: "*", ...rule }));
  const defaults = { matchPolicy: "Equivalent", namespaceSelector: {}, objectSelector: {} };
  return {
    ...policy,
    spec: { ...policy.spec, matchConstraints: { ...defaults, ...matchConstraints, resourceRules } },
  };
}

async function readLive(client: PolicyReader, { kind, metadata }: Policy): Promise<Live | undefined> {
  const plural = RESOURCES[kind];
  // Uses the untyped client: the typed one drops fields that it does not know, and so hides changes.
  const place = { group: "admissionregistration.k8s.io", version: "v1", plural, name: metadata.name };
  try {
    return liveObject.parse(await client.custom.getClusterCustomObject(place));
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

function faultOf({ spec }: Policy, live: Live | undefined): string | undefined {
  if (live === undefined) return "is missing";
  if (live.metadata.deletionTimestamp !== undefined) return "is being deleted";
  if (!isDeepStrictEqual(live.spec, spec)) return "differs from crds/policies.yaml of this version";
  if (live.metadata.generation > 1 && changes(live).length === 0) {
    return "does not record when it was last changed; delete it and apply crds/policies.yaml again";
  }
  return undefined;
}

function nameOf({ kind, metadata }: Policy): string {
  return `${kind} ${metadata.name}`;
}

function lastChange(live: Live): number {
  return Math.max(...[live.metadata.creationTimestamp, ...changes(live)].map((time) => Date.parse(time)));
}

/** Ignores changes to labels and status. */
function changes({ metadata }: Live): string[] {
  if (metadata.generation === 1) return [];
  const writes = metadata.managedFields.filter(
    ({ subresource, fieldsV1 = {} }) => subresource === undefined && "f:spec" in fieldsV1,
  );
  return writes.flatMap(({ time }) => (time === undefined ? [] : [time]));
}
