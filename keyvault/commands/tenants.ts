import { Command, InvalidArgumentError } from "commander";
import type { AdoptionAnswer } from "../lifecycle/adopt_states.ts";
import type { TenantAnswer } from "../lifecycle/destroy.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./ask_vault.ts";
import { print } from "./display.ts";
import { wholeNumber } from "./read_input.ts";

const TENANT = /^[A-Za-z0-9._:@-]{1,128}$/;

const ABOUT_DESTROY = `Request the destruction of a tenant's data key, and therefore of all its keys, or approve another admin's request for the same number of days. When the second admin calls, the tenant's keys stop signing, and the tenant gets no new keys. When the days are over, the data key is erased, and no copy of a seed opens without it. Until then one admin can cancel the destruction with --cancel, which leaves the tenant as it was.`;

type DestroyOptions = RemoteOptions & { days: number; cancel?: true };

/** Returns the commands `keyvault tenants …`. */
export function tenantsCommand(): Command {
  const destroy = new Command("destroy")
    .summary("destroy a tenant with all its keys (two admins)")
    .description(ABOUT_DESTROY)
    .argument("<tenant>", "the tenant's name", parseTenant);
  withRemoteOptions(destroy)
    .option("--days <days>", "days until the data key is erased, 7 to 30", parseDestructionDays, 30)
    .option("--cancel", "cancel the destruction")
    .action(async (tenant: string, options: DestroyOptions) => {
      const path = `/v1/tenants/${encodeURIComponent(tenant)}/destroy`;
      const outcome = (await (options.cancel
        ? ask(options, `${path}/cancel`, {})
        : ask(options, path, { after_days: options.days }))) as TenantAnswer;
      print(options, outcome, describeAnswer(outcome));
    });
  return new Command("tenants").summary("destroy a tenant with all its keys").addCommand(destroy);
}

function describeAnswer({ tenant, state, pending, destroy_at }: TenantAnswer): string {
  if (pending !== null) {
    return `Tenant ${tenant} is still ${state}: another admin must run the same command within 24 hours.\n`;
  }
  return `Tenant ${tenant} is ${state}${destroy_at === null ? "" : `; its data key is erased ${destroy_at}`}.\n`;
}

const ABOUT_ADOPT = `Give codes to the keys and tenants that an earlier version stored without codes. This needs two admins: the first admin's request waits 24 hours for another admin to run the same command with a certificate of another name. Until then these keys are shown as DAMAGED and sign nothing.

Nothing proves that such a row is as the vault left it. Before you run this, look at the keys ("keyvault keys list", "keyvault keys show") and compare their ceilings and states with what you know. Both admins see the same fingerprint of the rows. If a row is altered in between, the second request starts a new wish.`;

/** `keyvault adopt` */
export function adoptCommand(): Command {
  const command = new Command("adopt")
    .summary("adopt rows that an earlier version stored without codes (two admins)")
    .description(ABOUT_ADOPT);
  return withRemoteOptions(command).action(async (options: RemoteOptions) => {
    const outcome = (await ask(options, "/v1/states/adopt", {}, TIMEOUT_MS)) as AdoptionAnswer;
    print(options, outcome, describeAdoption(outcome));
  });
}

const TIMEOUT_MS = 300_000;

function describeAdoption({ adopted, keys, tenants, rows }: AdoptionAnswer): string {
  const what = `${keys} keys and ${tenants} tenants`;
  const fingerprint = `fingerprint    ${rows}\n`;
  return adopted
    ? `Adopted ${what}.\n${fingerprint}`
    : `${what} wait: another admin must run the same command within 24 hours.\n${fingerprint}`;
}

/** Parses a tenant's name from the command line. Throws commander's error for an invalid name. */
export function parseTenant(text: string): string {
  if (!TENANT.test(text)) throw new InvalidArgumentError("Give 1 to 128 letters, digits and ._:@-");
  return text;
}

/** Parses the number of days before a destruction takes effect, from the command line. */
export const parseDestructionDays = wholeNumber(7, 30, "Give 7 to 30 days.");
