import { onlyName } from "../arguments.ts";
import { type Command, shared, textOf, waitFor } from "../command.ts";
import { Failure } from "../kubectl.ts";
import { conditionOf, type Delegation, objectOf, reasonOf, resources } from "../objects.ts";
import { visible } from "../text.ts";
import { linesText, stateLines } from "./describe.ts";

/** The command `revoke`: ends a delegation permanently. */
export const revoke: Command = {
  summary: "Revoke a delegation, or withdraw its request, permanently",
  usage: "<delegation>",
  named: "delegation",
  options: {
    reason: { short: "r", takes: "text", help: "the reason, for people and the history" },
    yes: shared.yes,
    "dry-run": shared.dryRun,
    "no-wait": shared.noWait,
    timeout: shared.timeout,
  },
  async run(context) {
    const { kubectl, terminal, clock, options, names } = context;
    const name = onlyName(names, "the delegation");
    const read = () => objectOf<Delegation>(kubectl, "delegation", name);
    const object = await read();
    const isDryRun = options["dry-run"] === true;
    if (options.yes !== true && !isDryRun) {
      const lines = [["Delegation", name] as const, ...stateLines(object, clock.now())];
      terminal.note(linesText(lines, terminal.width));
      if (!(await terminal.confirm(`Revoke ${name} permanently?`))) throw new Failure("Nothing was revoked");
    }
    const reason = textOf(options, "reason");
    const spec = { revoked: true, ...(reason !== undefined && { revokeReason: reason }) };
    const { uid } = object.metadata;
    await kubectl.run([
      ...["patch", resources.delegation, name, "--type=merge"],
      ...["-p", JSON.stringify({ metadata: { uid }, spec }), ...(isDryRun ? ["--dry-run=server"] : [])],
    ]);
    if (isDryRun || options["no-wait"] === true) {
      terminal.out(`delegation/${name} ${isDryRun ? "would be revoked (dry run)" : "will be revoked"}\n`);
      return;
    }
    const ended = await waitFor(context, "The revocation", async () => {
      const found = await read();
      const isSo = conditionOf(found, "Revoked")?.status === "True" || isOver(reasonOf(found));
      return isSo ? found : undefined;
    });
    const message = conditionOf(ended, "Ready")?.message ?? "";
    terminal.out(`delegation/${name} is ${reasonOf(ended)}: ${visible(message)}\n`);
  },
};

function isOver(reason: string): boolean {
  return reason === "Denied" || reason === "Expired";
}
