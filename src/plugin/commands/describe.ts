import type { AnyObject, Delegation } from "../objects.ts";
import { conditionOf, reasonOf } from "../objects.ts";
import { labelled, relative, visible } from "../text.ts";

/** A line of a description. */
export type Line = readonly [label: string, text: string];

function constraintText({ type, ...limits }: Record<string, unknown>): string {
  const parts = Object.entries(limits).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return `${String(type)} (${parts.join(", ")})`;
}

/** Returns the lines that show what a Delegation requests. */
export function requestLines({ metadata, spec }: Delegation, now: Date): Line[] {
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
    ["Requested", spec.scopes.join(", ")],
    ["Lifetime", life],
    ...(spec.constraints ?? []).map((constraint): Line => ["Only if", constraintText(constraint)]),
    ...(spec.purpose === undefined ? [] : [["Purpose", spec.purpose] satisfies Line]),
    ["Requested by", spec.requestedBy ?? "unknown"],
  ];
}

/** Returns the lines that show the state of a Delegation. */
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
  if (message !== "") lines.push(["Message", message]);
  return lines;
}

/** Formats lines with their labels in a column, at most `width` columns wide. */
export function linesText(lines: readonly Line[], width: number): string {
  const shown = lines.map(([label, text]) => [label, visible(text)] as const);
  return `${labelled(shown, width)}\n`;
}

/** Advice on the next step, for each reason that a user can act on. */
const NEXT: Readonly<Record<string, string>> = {
  AwaitingApproval:
    "The account's owner decides in the console, or an approver here: kubectl deputize approve <name>, or deny.",
  ApproverNotLinked:
    "The approver is not linked to a member who may approve: kubectl deputize link shows what an owner has to confirm.",
  FourEyesRequired:
    "Two people are required: create the delegation again with spec.requestedBy, and let somebody else approve it.",
  ApprovalPolicyMissing:
    "Ask an administrator to apply crds/policies.yaml; then create the delegation again, or decide in the console.",
  NamespaceNotBound:
    "Ask an administrator to bind the namespace, and the account's owner to accept the namespace.",
  NamespaceNotSelected: "Ask an administrator to give the namespace the labels that the operator selects.",
  CeilingExceeded: "Request fewer scopes, or have the ceiling widened where it is set.",
  ExternalMissing: "Follow the message: first check the operator's cluster id and the API that it uses.",
  Denied: "A decision is final: create another Delegation to request it again.",
  Revoked: "kubectl deputize renew <name> requests the same authority again.",
  Expired: "kubectl deputize renew <name> requests the same authority again.",
  SecretNotOwned: "Rename or delete that Secret, or choose another name with spec.credentialsSecretName.",
};

/** Returns advice on the next step; `undefined` if there is nothing to do. */
export function nextOf(object: AnyObject): string | undefined {
  return NEXT[reasonOf(object)]?.replace("<name>", object.metadata.name);
}
