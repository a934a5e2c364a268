import { Command } from "commander";
import type { RewrapProgress } from "../kek/rewrap.ts";
import type { SealState } from "../lifecycle/sealing.ts";
import type { Status } from "../status.ts";
import type { PinFlag } from "../token/messages.ts";
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
  const { sealed, token, pin_flags, kek, keys, service_key, audit } = status;
  const lines: [string, string][] = [
    ...(sealed === null ? [] : [["SEALED", describeSeal(sealed)] satisfies [string, string]]),
    ...(token === null ? [] : describeToken(token)),
    ...describePin(pin_flags ?? []),
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

const OPENS = '"keyvault unseal" opens it';

/** Each reason with what to do. */
const REASONS = {
  no_pin_file: ["there was no PIN file at the start", OPENS],
  asked: ["an admin asked for it", OPENS],
  process_ended: ["the token's process ended, and there is no PIN file", OPENS],
  chain_broken: [
    "the audit chain is not what the vault wrote",
    '"keyvault audit verify" names the record; put the database right, then "keyvault unseal"',
  ],
  pin_refused: [
    "the token refused the PIN of the PIN file, and the vault does not try this PIN again",
    'correct the file, then "keyvault unseal"',
  ],
  pin_unanswered: [
    "the token gave no answer to the last logins, and may have counted them as wrong",
    'check the token and the PIN, then "keyvault unseal"',
  ],
  pin_final_try: [
    "one more wrong PIN locks the token, so the vault does not try the PIN file",
    'check the PIN, then "keyvault unseal --final-try"',
  ],
  pin_locked: [
    "the token's PIN is locked",
    'the token\'s security officer must unlock it, then "keyvault unseal"',
  ],
} as const satisfies Record<SealState["reason"], readonly [why: string, what: string]>;

function describeSeal({ since, reason, by }: SealState): string {
  const [why, what] = REASONS[reason];
  return `since ${since}: ${by === null ? why : `by ${by}`}; ${what}`;
}

const PIN_FLAGS = {
  count_low: "a wrong PIN was entered since the last login",
  final_try: "ONE MORE WRONG PIN LOCKS THE TOKEN",
  locked: "LOCKED",
  to_be_changed: "it is the token's default PIN or has expired: change it with the vendor's tool",
} as const satisfies Record<PinFlag, string>;

function describePin(flags: readonly PinFlag[]): [string, string][] {
  return flags.length === 0 ? [] : [["PIN", flags.map((flag) => PIN_FLAGS[flag]).join("; ")]];
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
