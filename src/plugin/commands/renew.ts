import { onlyName } from "../arguments.ts";
import { type Command, shared, textOf } from "../command.ts";
import { Failure, UsageFailure, whoAmI } from "../kubectl.ts";
import { type Delegation, objectOf, resources } from "../objects.ts";

/** Labels and annotations by which tools manage an object. `renew` does not copy them. */
const NOT_COPIED =
  /^(kubectl\.kubernetes\.io|argocd\.argoproj\.io|([a-z]+\.)?toolkit\.fluxcd\.io|meta\.helm\.sh|([^/]*\.)?deputize\.io|config\.k8s\.io)\//;

/** The command `renew`: requests the same authority again, as a new Delegation with a different name. */
export const renew: Command = {
  summary: "Request the same authority again, as another delegation",
  usage: "<delegation>",
  named: "delegation",
  options: {
    name: { takes: "name", help: "name of the new delegation; default: the old name with the next number" },
    ttl: { takes: "24h", help: "lifetime of the new delegation; default: that of the old one" },
    "dry-run": shared.dryRun,
    output: shared.output,
  },
  async run({ kubectl, terminal, options, names }) {
    const name = onlyName(names, "the delegation");
    const old = await objectOf<Delegation>(kubectl, "delegation", name);
    const all = await kubectl.list<Delegation>([resources.delegation]);
    const taken = new Set(all.map(({ metadata }) => metadata.name));
    const { username } = await whoAmI(kubectl);
    const object = renewed(old, {
      name: textOf(options, "name") ?? nextName(name, taken),
      ttl: textOf(options, "ttl"),
      username,
    });
    const isDryRun = options["dry-run"] === true;
    const args = ["create", "-f", "-", ...(isDryRun ? ["--dry-run=server"] : [])];
    const created = await kubectl.json<Delegation>(args, JSON.stringify(object));
    if (options.output === "json") {
      terminal.out(`${JSON.stringify(created, undefined, 2)}\n`);
      return;
    }
    const next = created.metadata.name;
    terminal.out(
      isDryRun
        ? `delegation/${next} would be created (dry run)\n`
        : `delegation/${next} created; it needs a decision: kubectl deputize approve ${next}\n`,
    );
  },
};

/** Returns a new Delegation with the same request as the given one, on behalf of the current user. */
export function renewed(
  { metadata, spec }: Delegation,
  { name, ttl, username }: { name: string; ttl: string | undefined; username: string },
): object {
  const { revoked: _, expiresAt, requestedBy, ...asked } = spec;
  const { revokeReason: __, suspend: ___, ...same } = asked as Record<string, unknown>;
  if (expiresAt !== undefined && ttl === undefined) {
    throw new UsageFailure(
      `The old delegation was requested until ${expiresAt}; set the lifetime of the new one with --ttl`,
    );
  }
  return {
    apiVersion: "deputize.io/v1alpha1",
    kind: "Delegation",
    metadata: {
      name,
      namespace: metadata.namespace,
      labels: copied(metadata.labels),
      annotations: copied(metadata.annotations),
    },
    spec: {
      ...same,
      ...(ttl !== undefined && { ttl }),
      ...(requestedBy !== undefined && { requestedBy: username }),
    },
  };
}

function copied(marks: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(marks).filter(([name]) => !NOT_COPIED.test(name)));
}

const LONGEST_NAME = 63;

/** Returns the name with the next free number: `bot` becomes `bot-2`, `bot-2` becomes `bot-3`. */
export function nextName(name: string, taken: ReadonlySet<string>): string {
  const [, stem = name, number = "1"] = /^(.+)-(\d{1,6})$/.exec(name) ?? [];
  for (let next = Number(number) + 1; ; next += 1) {
    const candidate = `${stem.slice(0, LONGEST_NAME - 1 - String(next).length)}-${next}`;
    if (!taken.has(candidate)) return candidate;
    if (next > 999_999) throw new Failure("Choose a name with --name");
  }
}
