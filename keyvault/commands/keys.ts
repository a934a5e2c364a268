import { Command, InvalidArgumentError } from "commander";
import type { Wish } from "../db/rows.ts";
import { exitStatus } from "../errors.ts";
import type { KeyPage, KeyView, ListedKey } from "../keys/view.ts";
import type { KeyAnswer } from "../lifecycle/destroy.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./ask_vault.ts";
import { type Column, drawTable, print } from "./display.ts";
import { parseDestructionDays, parseTenant } from "./tenants.ts";

const KEY_ID = /^[0-9a-f]{32}$/;
/** Minimum number of terminal columns for a list that shows dates. */
const WITH_DATES = 92;

const ABOUT_KEYS = `Show a running vault's keys, and disable, enable or destroy them, with an admin's certificate. An auditor's certificate is enough to show them.

A key is active, disabled (it does not sign), destroying (it does not sign, and its seeds will be erased on a known day) or destroyed. One admin can disable a key, with immediate effect. Enabling and destroying need two admins: the first admin's request waits 24 hours for another admin to run the same command with a certificate of another name.`;

const ABOUT_LIST = `List all keys or one tenant's keys, sorted by id. A key whose row was altered in the database is shown as DAMAGED.

Exit status: 0, 1 when a key is damaged, 3 when the vault does not answer.`;

const ABOUT_DESTROY = `Request a key's destruction, or approve another admin's request for the same number of days. The key stops signing when the second admin calls. Its seeds are erased when the days are over. Until then one admin can cancel the destruction with --cancel, which leaves the key disabled.`;

type ListOptions = RemoteOptions & { tenant?: string };
type DestroyOptions = RemoteOptions & { days: number; cancel?: true };

/** `keyvault keys …` */
export function keysCommand(): Command {
  const list = new Command("list").summary("list keys").description(ABOUT_LIST);
  withRemoteOptions(list)
    .option("--tenant <name>", "list only this tenant's keys", parseTenant)
    .action(async (options: ListOptions) => {
      const keys = await readAll(options);
      print(options, keys, describeList(keys, process.stdout.columns || 80));
      if (keys.some(({ damaged }) => damaged)) process.exitCode = exitStatus.failed;
    });
  const show = withId(new Command("show").summary("show one key's public parts"));
  show.action(async (id: string, options: RemoteOptions) => {
    const key = (await ask(options, `/v1/keys/${id}`)) as KeyView;
    print(options, key, describeKey(key));
  });
  const disable = withId(new Command("disable").summary("stop a key from signing, immediately"));
  disable.action(async (id: string, options: RemoteOptions) => {
    const outcome = (await ask(options, `/v1/keys/${id}/disable`, {})) as object;
    print(options, outcome, `${id} is disabled: it no longer signs.\n`);
  });
  const enable = withId(new Command("enable").summary("let a disabled key sign again (two admins)"));
  enable.action((id: string, options: RemoteOptions) => decide(options, `/v1/keys/${id}/enable`, {}));
  const destroy = withId(
    new Command("destroy").summary("destroy a key (two admins)").description(ABOUT_DESTROY),
  )
    .option("--days <days>", "days until the seeds are erased, 7 to 30", parseDestructionDays, 30)
    .option("--cancel", "cancel the destruction");
  destroy.action((id: string, options: DestroyOptions) =>
    options.cancel
      ? decide(options, `/v1/keys/${id}/destroy/cancel`, {})
      : decide(options, `/v1/keys/${id}/destroy`, { after_days: options.days }),
  );
  return [list, show, disable, enable, destroy].reduce(
    (command, sub) => command.addCommand(sub),
    new Command("keys").summary("look at keys; disable, enable and destroy them").description(ABOUT_KEYS),
  );
}

function withId(command: Command): Command {
  return withRemoteOptions(command.argument("<key>", "the key's id, 32 hexadecimal digits", parseId));
}

async function decide(options: RemoteOptions, path: string, body: object): Promise<void> {
  const outcome = (await ask(options, path, body)) as KeyAnswer;
  print(options, outcome, describeAnswer(outcome));
}

async function readAll(options: ListOptions): Promise<ListedKey[]> {
  const keys: ListedKey[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const query = new URLSearchParams({
      limit: "500",
      ...(after && { after }),
      ...(options.tenant !== undefined && { tenant: options.tenant }),
    });
    const page = (await ask(options, `/v1/keys?${query}`)) as KeyPage;
    keys.push(...page.keys);
    after = page.next;
  }
  return keys;
}

/** Returns the keys as a table that fits the terminal, for `keyvault keys list`. */
export function describeList(keys: readonly ListedKey[], columns: number): string {
  const wide = columns >= WITH_DATES;
  const head = [
    { heading: "KEY" },
    { heading: "TENANT", shrinks: true },
    { heading: "PURPOSE" },
    { heading: "STATE" },
    ...(wide ? [{ heading: "CREATED" }] : []),
    { heading: "LABEL", shrinks: true },
  ] satisfies Column[];
  const rows = keys.map((key) => [
    key.key_id,
    key.tenant,
    key.purpose,
    shownState(key),
    ...(wide ? [key.created_at.slice(0, 10)] : []),
    key.label,
  ]);
  const waits = keys.some(({ pending }) => pending) ? "* waits for a second admin\n" : "";
  const ends = keys.some(endsWithTenant) ? "^ with its tenant\n" : "";
  return keys.length === 0 ? "There are no keys.\n" : drawTable(head, rows, columns) + waits + ends;
}

function shownState(key: ListedKey): string {
  if (key.damaged) return "DAMAGED";
  if (endsWithTenant(key)) return `${key.tenant_state}^`;
  return key.pending ? `${key.state}*` : key.state;
}

/** Returns whether the destruction of the key's tenant also destroys the key, which is not destroyed yet. */
function endsWithTenant({ state, tenant_state }: Pick<KeyView, "state" | "tenant_state">): boolean {
  return tenant_state !== "active" && state !== "destroyed";
}

function describeKey(key: KeyView): string {
  const lines: [string, string][] = [
    ["key", key.key_id],
    ["tenant", key.tenant],
    ["purpose", key.purpose],
    ["label", key.label],
    ["state", endsWithTenant(key) ? `${key.tenant_state}, with its tenant` : key.state],
    ["ceiling", key.ceiling === null ? "none recorded" : key.ceiling.join(", ") || "nothing"],
    ["created", key.created_at],
    ["attested by", key.attestation.attested_by],
  ];
  if (key.pending) lines.push(["waits", describePending(key.pending)]);
  if (key.destroy_at) lines.push(["erased", key.destroy_at]);
  return lines.map(([name, value]) => `${name.padEnd(12)} ${value}\n`).join("");
}

function describePending({ admin, action, days, asked_at }: Wish): string {
  return `${admin} asked to ${action} it${days === undefined ? "" : ` after ${days} days`}, ${asked_at}`;
}

function describeAnswer({ key_id, state, pending, destroy_at }: KeyAnswer): string {
  if (pending !== null) {
    return `${key_id} is still ${state}: another admin must run the same command within 24 hours.\n`;
  }
  return `${key_id} is ${state}${destroy_at === null ? "" : `; its seeds are erased ${destroy_at}`}.\n`;
}

function parseId(text: string): string {
  if (!KEY_ID.test(text)) throw new InvalidArgumentError("Give a key's id: 32 hexadecimal digits.");
  return text;
}
