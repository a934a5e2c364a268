import { Command } from "commander";
import type { RewrapProgress } from "../kek/rewrap.ts";
import type { SealState } from "../lifecycle/sealing.ts";
import type { Status } from "../status.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./ask_vault.ts";
import { columnsOf, foldLines, print } from "./display.ts";

/** `keyvault status` */
export function statusCommand(): Command {
  const command = new Command("status")
    .summary("show the state of a running vault")
    .description(
      "Show a running vault's token, keys and audit head. Needs an admin's or auditor's certificate.",
    );
  return withRemoteOptions(command).action(async (options: RemoteOptions) => {
    const status = (await ask(options, "/v1/status")) as Status;
    print(options, status, describeStatus(status));
  });
}

/** Returns the status as readable lines, wrapped to the terminal's width. */
export function describeStatus(status: Status): string {
  const { sealed, token, kek, keys, service_key, audit } = status;
  const lines: [string, string][] = [
    ...(sealed === null ? [] : [["SEALED", describeSeal(sealed)] satisfies [string, string]]),
    ...(token === null ? [] : describeToken(token)),
    ...(token === null || kek === null
      ? []
      : [["key encryption", `${token.keks.join(", ")}${rewrapping(kek)}`] satisfies [string, string]]),
    ["keys", `${keys.active} active, ${keys.disabled} disabled${endings(keys)}, of ${keys.tenants} tenants`],
    ["service key", service_key ?? "not checked yet"],
    ["audit", `${audit.records} records`],
    ["audit head", audit.head === null ? "not checked yet" : `${audit.records}:${audit.head}`],
  ];
  return foldLines(lines, 15, columnsOf());
}

const REASONS = {
  no_pin_file: "there was no PIN file at the start",
  asked: "an admin asked for it",
  process_ended: "the token's process ended, and there is no PIN file",
  chain_broken: "the audit chain is not what the vault wrote",
} as const satisfies Record<SealState["reason"], string>;

function describeSeal({ since, reason, by }: SealState): string {
  const why = by === null ? REASONS[reason] : `by ${by}`;
  const what =
    reason === "chain_broken"
      ? '"keyvault audit verify" names the record; put the database right, then "keyvault unseal"'
      : '"keyvault unseal" opens it';
  return `since ${since}: ${why}; ${what}`;
}

function describeToken(token: NonNullable<Status["token"]>): [string, string][] {
  const answers = token.answers ? "answers" : "DOES NOT ANSWER";
  return [["token", `${answers} (${token.manufacturer}, ${token.model}, serial ${token.serial})`]];
}

function rewrapping({ kek, running, remaining }: RewrapProgress): string {
  if (remaining === 0) return "";
  return `; ${remaining} data keys are not under ${kek} yet${running ? " (rewrapping)" : ': "keyvault kek rewrap"'}`;
}

function endings({ destroying, destroyed }: Status["keys"]): string {
  return destroying + destroyed === 0 ? "" : `, ${destroying} to be destroyed, ${destroyed} destroyed`;
}
