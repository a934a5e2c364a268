import { existsSync } from "node:fs";
import { join } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { REMOTE_ROLES, type RemoteRole } from "../audit/record.ts";
import { systemClock } from "../clock.ts";
import { loadCertificateConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { Subject } from "../tls/authority.ts";
import { print } from "./display.ts";
import { wholeNumber } from "./read_input.ts";

const NAME = /^[A-Za-z0-9._-]{1,64}$/;
const parseDays = wholeNumber(1, 3650, "Give 1 to 3650 days.");

const ISSUE = `Issue a certificate with a fresh key, from the authority in <data>/tls or the folder of --ca. Run the command where ca.key is. It needs no token and no database, and with --ca no setting. A running vault accepts the new certificate without a restart.

The roles api, admin, auditor and backup make a client's certificate with that role. "server" makes the vault's own certificate, which a running vault loads within seconds.`;

const REVOKE = `Add a certificate to the revocation list. A running vault refuses the certificate within seconds, also on open connections.

To revoke a certificate whose file you no longer have, add a line with its serial number, in hexadecimal, to <data>/tls/revoked.`;

type IssueOptions = {
  role: string;
  name?: string;
  days: number;
  ca?: string;
  out?: string;
  replace?: true;
  json?: true;
};

/** `keyvault cert …` */
export function certCommand(): Command {
  const issue = new Command("issue")
    .summary("issue a certificate")
    .description(ISSUE)
    .addOption(
      new Option("--role <role>", "the role of the certificate")
        .choices([...REMOTE_ROLES, "server"])
        .makeOptionMandatory(),
    )
    .option("--name <name>", "the name of its holder, which appears in every audit record", parseName)
    .option("--days <days>", "how many days the certificate is valid", parseDays, 397)
    .option("--ca <folder>", "where ca.pem and ca.key are (default: <data>/tls)")
    .option(
      "--out <stem>",
      "the files to write, <stem>.pem and <stem>.key (default: <role>-<name> in that folder)",
    )
    .option("--replace", "overwrite those files")
    .option("--json", "print JSON")
    .action(runIssue);
  const revoke = new Command("revoke")
    .summary("refuse a certificate from now on")
    .description(REVOKE)
    .argument("<certificate>", "its file")
    .option("--json", "print JSON")
    .action(async (file: string, { json }: { json?: true }) => {
      const { revokeCertificate } = await import("../tls/issue.ts");
      const { revokedFile } = loadCertificateConfig(undefined);
      const isFirst = !existsSync(revokedFile);
      const serial = await revokeCertificate(revokedFile, file, systemClock.now());
      if (isFirst) {
        process.stderr.write(
          `There was no ${revokedFile}, so a new list was created. If there was a list before, put it back and revoke again.\n`,
        );
      }
      print({ json }, { revoked: serial }, `Revoked ${serial}\n`);
    });
  return new Command("cert")
    .summary("issue and revoke certificates")
    .addCommand(issue)
    .addCommand(certSecretsCommand())
    .addCommand(revoke);
}

async function runIssue(options: IssueOptions, command: Command): Promise<void> {
  if (options.role !== "server" && options.name === undefined) {
    command.error("--name is needed for a client's certificate");
  }
  const config = loadCertificateConfig(options.ca);
  const subject = subjectOf(options, config.serverNames);
  const name = subject.kind === "server" ? "server" : `${subject.role}-${subject.name}`;
  const { issueFiles } = await import("../tls/issue.ts");
  const issued = await issueFiles(
    config.tlsDir,
    {
      subject,
      days: options.days,
      stem: options.out ?? join(config.tlsDir, name),
      replace: options.replace === true,
    },
    systemClock.now(),
  );
  const rows = Object.entries({ ...issued, not_after: issued.not_after.slice(0, 10) });
  print(
    options,
    issued,
    rows.map(([key, value]) => `${key.replace("_", " ").padEnd(12)} ${value}\n`).join(""),
  );
}

function subjectOf({ role, name = "" }: IssueOptions, names: readonly string[]): Subject {
  if (role === "server") return { kind: "server", names };
  return { kind: "client", role: role as RemoteRole, name };
}

function parseName(text: string): string {
  if (!NAME.test(text)) throw new InvalidArgumentError("Give 1 to 64 letters, digits and ._-");
  return text;
}

const ABOUT = `Make the authority and the certificates of the vault's transport as Secrets of the pod's own namespace, and renew them. Run it as a Job before an installation and as a CronJob. A valid Secret is not changed. A Secret with other content is an error and is not changed either.

The authority's Secret contains ca.pem and ca.key and is written once. It can issue administrator certificates: let only this Job and the people who run the vault read it. The others contain tls.crt, tls.key and ca.crt. The vault and the API load new ones within seconds.

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

function certSecretsCommand(): Command {
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
    .option("--days <days>", "how many days certificates are valid", parseDays, 90)
    .option("--renew-days <days>", "how many days before its expiry a certificate is renewed", parseDays, 30)
    .option("--kubernetes <url>", "the API server", "https://kubernetes.default.svc")
    .option("--account <folder>", "the folder with the pod's token, ca.crt and namespace", ACCOUNT)
    .option("--json", "print JSON")
    .action(run);
}

async function run({ authority, server, serverName, client, label, ...options }: Options): Promise<void> {
  const { days, renewDays, kubernetes, account, json } = options;
  if (renewDays >= days) throw new UsageError("--renew-days must be fewer than --days");
  const ends = [{ secret: server, subject: { kind: "server", names: serverName } as const }, ...client];
  const { openSecrets } = await import("../tls/kubernetes_secrets.ts");
  const { ensureCertificates } = await import("../tls/ensure_secrets.ts");
  const secrets = await openSecrets(kubernetes, account);
  try {
    const plan = { authority, ends, labels: label, days, renewDays };
    for (const one of await ensureCertificates(secrets, plan, systemClock.now())) {
      print({ json }, one, `${one.secret}: ${one.done}, holds until ${one.not_after.slice(0, 10)}\n`);
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
