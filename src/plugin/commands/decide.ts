import { onlyName } from "../arguments.ts";
import { type Command, type Context, shared, textOf, waitFor } from "../command.ts";
import { Failure, type Kubectl, KubectlFailure, UsageFailure, whoAmI } from "../kubectl.ts";
import { type Approval, conditionOf, type Delegation, objectOf, reasonOf, resources } from "../objects.ts";
import { visible } from "../text.ts";
import { linesText, nextOf, requestLines } from "./describe.ts";

const options = {
  message: { short: "m", takes: "text", help: "the reason, as a text for people" },
  yes: shared.yes,
  "dry-run": shared.dryRun,
  "no-wait": shared.noWait,
  timeout: shared.timeout,
  output: shared.output,
};

/** The command `approve`: approves a delegation, with all or some of its scopes. */
export const approve: Command = {
  summary: "Approve a delegation, or some of its scopes",
  usage: "<delegation>",
  named: "delegation",
  options: {
    scopes: { takes: "a,b", help: "grant only these scopes; default: all requested scopes" },
    ...options,
  },
  run: (context) => decide(context, "Approved"),
};

/** The command `deny`: denies a delegation. */
export const deny: Command = {
  summary: "Deny a delegation",
  usage: "<delegation>",
  named: "delegation",
  options,
  run: (context) => decide(context, "Denied"),
};

/** Reasons by which the operator reports the final result of a decision. */
const FINAL_REASONS: ReadonlySet<string> = new Set([
  ...["Active", "Denied", "Revoked", "Expired", "ApproverNotLinked", "FourEyesRequired"],
  ...[
    "ApprovalPolicyMissing",
    "NamespaceNotBound",
    "NamespaceNotSelected",
    "CeilingExceeded",
    "InvalidSpec",
    "ExternalMissing",
  ],
]);
/** Maximum number of attempts to write a decision. The operator's own writes may conflict with it. */
const TRIES = 5;

async function decide(context: Context, decision: Approval["decision"]): Promise<void> {
  const { kubectl, terminal, clock, options, names } = context;
  const name = onlyName(names, "the delegation");
  const read = () => objectOf<Delegation>(kubectl, "delegation", name);
  const object = await read();
  const { username } = await whoAmI(kubectl);
  const obstacle = obstacleTo(object, username);
  if (obstacle !== undefined) throw new Failure(obstacle);
  const message = textOf(options, "message");
  const approval: Omit<Approval, "approver"> & {
    approver: { username: string };
    observedGeneration: number;
  } = {
    decision,
    ...(decision === "Approved" && { approvedScopes: chosenScopes(object, textOf(options, "scopes")) }),
    approver: { username },
    observedGeneration: object.metadata.generation ?? 0,
    ...(message !== undefined && { message }),
  };
  const granted = approval.approvedScopes?.join(", ");
  const what = granted === undefined ? "Deny it" : `Grant ${granted}`;
  if (options.yes !== true && options["dry-run"] !== true) {
    terminal.note(linesText(requestLines(object, clock.now()), terminal.width));
    if (!(await terminal.confirm(`${visible(what)} as ${visible(username)}?`))) {
      throw new Failure("Nothing was decided");
    }
  }
  await write(kubectl, object, approval, { read, dryRun: options["dry-run"] === true });
  if (options["dry-run"] === true) {
    terminal.out(`delegation/${name} would be ${decision.toLowerCase()} (dry run)\n`);
    return;
  }
  if (options["no-wait"] === true) {
    terminal.out(`delegation/${name} ${decision.toLowerCase()}\n`);
    return;
  }
  await printOutcome(context, read);
}

function obstacleTo({ metadata, spec, status }: Delegation, username: string): string | undefined {
  const { approval } = status ?? {};
  if (approval !== undefined) {
    const { decision, approver } = approval;
    return `The delegation was already ${decision.toLowerCase()} by ${visible(approver.username)}; a decision cannot be changed`;
  }
  if (metadata.deletionTimestamp !== undefined) return "The delegation is being deleted";
  if (spec.revoked === true) return "The delegation is revoked; it can no longer be decided";
  if (spec.requestedBy === username) return "You requested this delegation; somebody else must decide";
  return undefined;
}

function chosenScopes({ spec }: Delegation, given: string | undefined): string[] {
  if (given === undefined) return spec.scopes;
  const chosen = [...new Set(given.split(",").map((scope) => scope.trim()))].filter((scope) => scope !== "");
  const others = chosen.filter((scope) => !spec.scopes.includes(scope));
  if (others.length > 0) throw new UsageFailure(`Scopes not requested: ${visible(others.join(", "))}`);
  if (chosen.length === 0) throw new UsageFailure("--scopes names no scope; to grant nothing, use deny");
  return chosen;
}

/** Writes the approval to exactly the shown object. Throws `Failure` if it was changed or recreated. */
async function write(
  kubectl: Kubectl,
  shown: Delegation,
  approval: object,
  { read, dryRun }: { read(): Promise<Delegation>; dryRun: boolean },
): Promise<void> {
  let current = shown;
  for (let tries = 1; ; tries += 1) {
    const { name, resourceVersion } = current.metadata;
    const patch = { metadata: { resourceVersion }, status: { approval } };
    try {
      await kubectl.run([
        ...["patch", resources.delegation, name, "--subresource=status", "--type=merge"],
        ...["-p", JSON.stringify(patch), ...(dryRun ? ["--dry-run=server"] : [])],
      ]);
      return;
    } catch (error) {
      if (!(error instanceof KubectlFailure && error.isConflict) || tries === TRIES) throw error;
    }
    current = await read();
    const isSame = (["uid", "generation"] as const).every(
      (key) => current.metadata[key] === shown.metadata[key],
    );
    if (!isSame) throw new Failure("The delegation has changed since it was shown; check it again");
  }
}

async function printOutcome(context: Context, read: () => Promise<Delegation>): Promise<void> {
  const { terminal, options } = context;
  const object = await waitFor(context, "The decision", async () => {
    const found = await read();
    return FINAL_REASONS.has(reasonOf(found)) ? found : undefined;
  });
  const reason = reasonOf(object);
  if (options.output === "json") {
    terminal.out(`${JSON.stringify(object, undefined, 2)}\n`);
  } else {
    const message = conditionOf(object, "Ready")?.message ?? "";
    terminal.out(`delegation/${object.metadata.name} is ${reason}: ${visible(message)}\n`);
  }
  const isDecided =
    reason === "Active" || (reason === "Denied" && object.status?.approval?.decision === "Denied");
  if (!isDecided) throw new Failure(nextOf(object) ?? "The decision does not count");
}
