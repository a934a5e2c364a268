import type { AnyObject, Delegation } from "../objects.ts";
import { conditionOf, reasonOf } from "../objects.ts";
import { labelled, relative, visible } from "../text.ts";

/** A line of a description. */
export type Line = readonly [label: string, text: string];

/** A constraint in a few words: its type and its limits. */
function constraintText({ type, ...limits }: Record<string, unknown>): string {
  const parts = Object.entries(limits).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return `${String(type)} (${parts.join(", ")})`;
}

/** What a Delegation asks for, as people judge it. */
export function askedLines({ metadata, spec }: Delegation, now: Date): Line[] {
  const until = spec.expiresAt;
  const life =
    spec.ttl !== undefined
      ? `${spec.ttl} from the approval`
      : until !== undefined
        ? `until ${until} (${relative(until, now)})`
        : "until it is revoked";
  return [
    ["Delegation", `${metadata.namespace}/${metadata.name}`],
    ["Agent", `${spec.agentRef.name} on Platform ${spec.platformRef.name}`],
    ["Asked", spec.scopes.join(", ")],
    ["Life", life],
    ...(spec.constraints ?? []).map((constraint): Line => ["Only if", constraintText(constraint)]),
    ["Asked by", spec.requestedBy ?? "somebody who is not named"],
  ];
}

/** How far a Delegation is. */
export function stateLines(object: Delegation, now: Date): Line[] {
  const { status = {} } = object;
  const { approval } = status;
  const lines: Line[] = [["State", reasonOf(object)]];
  if (status.approvedScope !== undefined) lines.push(["Granted", status.approvedScope.join(", ")]);
  if (status.expiresAt !== undefined) {
    lines.push(["Ends", `${status.expiresAt} (${relative(status.expiresAt, now)})`]);
  }
  if (status.decidedBy !== undefined) lines.push(["Decided by", status.decidedBy]);
  if (approval !== undefined) {
    const scopes = approval.approvedScopes?.join(", ");
    const why = approval.message === undefined ? "" : `: ${approval.message}`;
    lines.push([
      approval.decision,
      `${scopes === undefined ? "" : `${scopes} `}by ${approval.approver.username}${why}`,
    ]);
  }
  if (status.certID !== undefined) lines.push(["Certificate", status.certID]);
  const message = conditionOf(object, "Ready")?.message ?? "";
  if (message !== "") lines.push(["Says", message]);
  return lines;
}

/** Lines with their labels in a column, in lines of at most `width` columns. */
export function linesText(lines: readonly Line[], width: number): string {
  const shown = lines.map(([label, text]) => [label, visible(text)] as const);
  return `${labelled(shown, width)}\n`;
}

/** What a person can do about an object, by its reason; nothing where there is nothing to do. */
const NEXT: Readonly<Record<string, string>> = {
  AwaitingApproval:
    "The account's owner decides in the product, or an approver here: kubectl deputize approve <name>, or deny.",
  ApproverNotLinked:
    "The approver is not known to the account: kubectl deputize link says what its owner has to confirm.",
  FourEyesRequired:
    "Two people are needed: create it again with spec.requestedBy, and have somebody else approve it.",
  ApprovalPolicyMissing:
    "An administrator applies crds/policies.yaml; then create it again, or decide in the product.",
  NamespaceNotBound: "An administrator binds the namespace, and the account's owner accepts it.",
  CeilingExceeded: "Ask for less, or have the ceiling widened where it is set.",
  ExternalMissing: "Delete it and create it again.",
  Denied: "A decision is made once: declare another one to ask again.",
  Revoked: "kubectl deputize renew <name> asks for it anew.",
  Expired: "kubectl deputize renew <name> asks for it anew.",
  SecretNotOwned: "Rename or delete that Secret, or choose another with spec.credentialsSecretName.",
};

/** What to do next; `undefined`: nothing. */
export function nextOf(object: AnyObject): string | undefined {
  return NEXT[reasonOf(object)]?.replace("<name>", object.metadata.name);
}
