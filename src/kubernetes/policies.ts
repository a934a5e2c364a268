import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { canonicalBytes } from "../protocol/encoding/canonical.ts";
import type { ClusterClient } from "./client.ts";
import { isStatus } from "./cluster_error.ts";

/**
 * Whether the admission policies of a cluster are those of `crds/policies.yaml`: their hash, and since when
 * they have been so; or which one is missing or altered.
 */
export type PoliciesVerdict =
  | { hash: string; since: Date; fault?: never }
  | { hash?: never; since?: never; fault: string };

/** The operator that the file names. */
export const DEFAULT_OPERATOR = "system:serviceaccount:deputize-system:deputize-operator";

const FILE = join(import.meta.dirname, "../../crds/policies.yaml");
const FOLDER = "/apis/admissionregistration.k8s.io/v1";
const RESOURCES = {
  ValidatingAdmissionPolicy: "validatingadmissionpolicies",
  ValidatingAdmissionPolicyBinding: "validatingadmissionpolicybindings",
} as const;

const document = z.object({
  kind: z.enum(["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]),
  metadata: z.object({ name: z.string() }),
  spec: z.record(z.string(), z.unknown()),
});
type Policy = z.infer<typeof document>;

const liveObject = z.object({
  metadata: z.object({
    creationTimestamp: z.iso.datetime(),
    deletionTimestamp: z.string().optional(),
    managedFields: z
      .array(z.object({ time: z.iso.datetime().optional(), subresource: z.string().optional() }))
      .default([]),
  }),
  spec: z.record(z.string(), z.unknown()),
});
type Live = z.infer<typeof liveObject>;

/**
 * Compares the policies and their bindings in a cluster with the file, in which the operator is the user
 * `operator`. Rejects when the cluster could not be asked.
 */
export async function checkPolicies(
  client: Pick<ClusterClient, "call">,
  { operator }: { operator: string },
): Promise<PoliciesVerdict> {
  const wanted = await readPolicies(operator);
  const found = await Promise.all(
    wanted.map(async (policy) => ({ policy, live: await readLive(client, policy) })),
  );
  const times: number[] = [];
  for (const { policy, live } of found) {
    const fault = faultOf(policy, live);
    if (fault !== undefined || live === undefined) return { fault: `${nameOf(policy)} ${fault}` };
    times.push(lastChange(live));
  }
  const specs = found.map(({ policy, live }) => ({ name: nameOf(policy), spec: live?.spec }));
  return { hash: hash("sha256", canonicalBytes(specs), "hex"), since: new Date(Math.max(...times)) };
}

/** The file's policies as an API server keeps them. */
async function readPolicies(operator: string): Promise<Policy[]> {
  const text = (await readFile(FILE, "utf8")).replaceAll(DEFAULT_OPERATOR, operator);
  return parseAllDocuments(text).map((each) => withDefaults(document.parse(each.toJS())));
}

/** What an API server adds to a policy that is given without it. */
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

async function readLive(
  client: Pick<ClusterClient, "call">,
  { kind, metadata }: Policy,
): Promise<Live | undefined> {
  const resource = RESOURCES[kind];
  try {
    const path = `${FOLDER}/${resource}/${metadata.name}`;
    return liveObject.parse(await client.call({ verb: "get", resource, path }));
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

function faultOf({ spec }: Policy, live: Live | undefined): string | undefined {
  if (live === undefined) return "is missing";
  if (live.metadata.deletionTimestamp !== undefined) return "is being deleted";
  return isDeepStrictEqual(live.spec, spec)
    ? undefined
    : "is not as this version's crds/policies.yaml has it";
}

function nameOf({ kind, metadata }: Policy): string {
  return `${kind} ${metadata.name}`;
}

/** When somebody last wrote to it, as the API server noted. What it writes itself goes to the status. */
function lastChange({ metadata }: Live): number {
  const writes = metadata.managedFields.filter(({ subresource }) => subresource === undefined);
  const times = writes.flatMap(({ time }) => (time === undefined ? [] : [time]));
  return Math.max(...[metadata.creationTimestamp, ...times].map((time) => Date.parse(time)));
}
