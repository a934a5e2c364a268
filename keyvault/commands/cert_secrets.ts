import { Command, InvalidArgumentError } from "commander";
import { systemClock } from "../clock.ts";
import { UserError } from "../errors.ts";
import type { Subject } from "../tls/authority.ts";
import { REMOTE_ROLES, type RemoteRole } from "../tls/roles.ts";

const ABOUT = `Make the authority and the certificates of the vault's transport as Secrets of the pod's own namespace, and renew them. Run it as a Job before an installation and as a CronJob. A Secret that is there and good is left as it is; one that holds something else is an error, and is left as it is too.

The authority's Secret has ca.pem and ca.key, and is written once. It makes administrators: let nobody but this Job and the people who run the vault read it. The others have tls.crt, tls.key and ca.crt. The vault and the API take up new ones within seconds of their arrival.

The pod's account needs get, create and patch for these Secrets, by their names, and nothing else.`;

const CLIENT = /^([a-z]+)\/([A-Za-z0-9._-]{1,64})=([a-z0-9][a-z0-9.-]{0,252})$/;
const LABEL = /^([A-Za-z0-9./_-]+)=([A-Za-z0-9._-]*)$/;
const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

type Client = { secret: string; subject: Subject };

type Options = {
  authority: string;
  server: string;
  serverName: string[];
  client: Client[];
  label: Record<string, string>;
  days: number;
  renewDays: number;
  kubernetes: string;
  account: string;
  json?: true;
};

/** `keyvault cert secrets` */
export function certSecretsCommand(): Command {
  return new Command("secrets")
    .summary("make and renew certificates as Secrets of a Kubernetes namespace")
    .description(ABOUT)
    .requiredOption("--authority <secret>", "the Secret of the authority")
    .requiredOption("--server <secret>", "the Secret of the vault's own certificate")
    .requiredOption(
      "--server-name <name>",
      "a name or an address by which the vault is reached; may be repeated",
      add,
    )
    .option(
      "--client <role/name=secret>",
      "a client's role and name, and its Secret; may be repeated",
      addClient,
      [],
    )
    .option("--label <name=value>", "a label of all Secrets; may be repeated", addLabel, {})
    .option("--days <days>", "how long certificates hold", parseDays, 90)
    .option("--renew-days <days>", "how many days before its end a certificate is made anew", parseDays, 30)
    .option("--kubernetes <url>", "the API server", "https://kubernetes.default.svc")
    .option("--account <folder>", "the folder with the pod's token, ca.crt and namespace", ACCOUNT)
    .option("--json", "print JSON")
    .action(run);
}

async function run({ authority, server, serverName, client, label, ...options }: Options): Promise<void> {
  const { days, renewDays, kubernetes, account, json } = options;
  if (renewDays >= days) throw new UserError("--renew-days must be fewer than --days");
  const ends = [{ secret: server, subject: { kind: "server", names: serverName } as const }, ...client];
  const { openSecrets } = await import("../tls/secrets/kubernetes.ts");
  const { ensureCertificates } = await import("../tls/secrets/ensure.ts");
  const secrets = await openSecrets(kubernetes, account);
  try {
    const plan = { authority, ends, labels: label, days, renewDays };
    for (const one of await ensureCertificates(secrets, plan, systemClock.now())) {
      const text = `${one.secret}: ${one.done}, holds until ${one.not_after.slice(0, 10)}`;
      process.stdout.write(`${json ? JSON.stringify(one) : text}\n`);
    }
  } finally {
    await secrets.close();
  }
}

function add(text: string, before: string[] = []): string[] {
  return [...before, text];
}

function addClient(text: string, before: Client[]): Client[] {
  const [, role, name, secret] = CLIENT.exec(text) ?? [];
  const known = REMOTE_ROLES.find((one): one is RemoteRole => one === role);
  if (known === undefined || name === undefined || secret === undefined) {
    throw new InvalidArgumentError(
      `Give <role>/<name>=<secret>, the role one of ${REMOTE_ROLES.join(", ")}.`,
    );
  }
  return [...before, { secret, subject: { kind: "client", role: known, name } }];
}

function addLabel(text: string, before: Record<string, string>): Record<string, string> {
  const [, name, value] = LABEL.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new InvalidArgumentError("Give <name>=<value>.");
  return { ...before, [name]: value };
}

/** Days from 1 to 3650. */
export function parseDays(text: string): number {
  const days = Number(text);
  if (!Number.isInteger(days) || days < 1 || days > 3650) {
    throw new InvalidArgumentError("Give 1 to 3650 days.");
  }
  return days;
}
