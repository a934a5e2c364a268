import { existsSync } from "node:fs";
import { join } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { systemClock } from "../clock.ts";
import { loadCertificateConfig } from "../config.ts";
import type { Subject } from "../tls/authority.ts";
import { REMOTE_ROLES, type RemoteRole } from "../tls/roles.ts";
import { certSecretsCommand, parseDays } from "./cert_secrets.ts";

const NAME = /^[A-Za-z0-9._-]{1,64}$/;
const DEFAULT_DAYS = "397";

const ISSUE = `Issue a certificate with a fresh key, from the authority in <data>/tls or the folder of --ca. Run it where ca.key is: no token and no database are needed, and with --ca no setting. A running vault needs no restart to accept the new certificate.

A role of api, admin, auditor or backup makes a client's certificate with that role; "server" makes the vault's own, which a running vault takes up within seconds.`;

const REVOKE = `Add a certificate to the revocation list. A running vault refuses it within seconds, on open connections too.

A certificate that is no longer at hand is revoked by a line with its serial number, in hexadecimal, in <data>/tls/revoked.`;

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
      new Option("--role <role>", "what it is for")
        .choices([...REMOTE_ROLES, "server"])
        .makeOptionMandatory(),
    )
    .option("--name <name>", "who it is for: written in every audit record", parseName)
    .option("--days <days>", "how long it holds", parseDays, parseDays(DEFAULT_DAYS))
    .option("--ca <folder>", "where ca.pem and ca.key are (default: <data>/tls)")
    .option("--out <stem>", "where to: <stem>.pem and <stem>.key (default: <role>-<name> in that folder)")
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
          `There was no ${revokedFile}, so this begins one. If there was a list before, put it back and revoke again.\n`,
        );
      }
      process.stdout.write(json ? `${JSON.stringify({ revoked: serial })}\n` : `Revoked ${serial}\n`);
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
  if (options.json) return void process.stdout.write(`${JSON.stringify(issued)}\n`);
  const rows = Object.entries({ ...issued, not_after: issued.not_after.slice(0, 10) });
  process.stdout.write(rows.map(([key, value]) => `${key.replace("_", " ").padEnd(12)} ${value}\n`).join(""));
}

function subjectOf({ role, name = "" }: IssueOptions, names: readonly string[]): Subject {
  if (role === "server") return { kind: "server", names };
  return { kind: "client", role: role as RemoteRole, name };
}

function parseName(text: string): string {
  if (!NAME.test(text)) throw new InvalidArgumentError("Give 1 to 64 letters, digits and ._-");
  return text;
}
