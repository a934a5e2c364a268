import { onlyName } from "../arguments.ts";
import { type Command, shared, waitFor } from "../command.ts";
import { Failure } from "../kubectl.ts";
import { objectOf, type Platform, resources } from "../objects.ts";

const ASKED = "deputize.io/rotate-key";

/** The command `rotate-key`: replaces a platform's API key, also in its Secret. */
export const rotateKey: Command = {
  summary: "Replace a platform's API key, also in its Secret",
  usage: "<platform>",
  named: "platform",
  options: {
    yes: shared.yes,
    "dry-run": shared.dryRun,
    "no-wait": shared.noWait,
    timeout: shared.timeout,
  },
  async run(context) {
    const { kubectl, terminal, clock, options, names } = context;
    const name = onlyName(names, "the platform").replace(/^platform\//, "");
    const read = () => objectOf<Platform>(kubectl, "platform", name);
    const { metadata, spec, status } = await read();
    const isDryRun = options["dry-run"] === true;
    const grace = (spec as { keyRotation?: { grace?: string } }).keyRotation?.grace;
    const end = grace === undefined ? "the old key ends immediately" : `the old key ends after ${grace}`;
    if (
      options.yes !== true &&
      !isDryRun &&
      !(await terminal.confirm(`Replace the key of ${name}? ${end}`))
    ) {
      throw new Failure("The key stays as it is");
    }
    const asked = clock.now().toISOString();
    const patch = { metadata: { uid: metadata.uid, annotations: { [ASKED]: asked } } };
    await kubectl.run([
      ...["patch", resources.platform, name, "--type=merge", "-p", JSON.stringify(patch)],
      ...(isDryRun ? ["--dry-run=server"] : []),
    ]);
    if (isDryRun || options["no-wait"] === true) {
      terminal.out(`platform/${name} ${isDryRun ? "would get" : "will get"} a new key\n`);
      return;
    }
    const done = await waitFor(context, "The new key", async () => {
      const found = await read();
      return found.status?.lastRotationRequest === asked ? found.status : undefined;
    });
    const secret = done.credentialsSecretName ?? status?.credentialsSecretName ?? "its Secret";
    terminal.out(`platform/${name} has key number ${done.credentialsVersion} in secret/${secret}; ${end}\n`);
  },
};
