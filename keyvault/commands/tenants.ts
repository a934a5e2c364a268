import { Command, InvalidArgumentError } from "commander";
import type { TenantAnswer } from "../lifecycle/answers.ts";
import { parseDestructionDays } from "./destruction_days.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./remote/call.ts";

const TENANT = /^[A-Za-z0-9._:@-]{1,128}$/;

const ABOUT_DESTROY = `Ask for the destruction of a tenant's data key, and so of all its keys, or grant it to another admin who asked for the same number of days. From the second admin's call on none of its keys signs and no more are made; when the days are over the data key is erased, without which no copy of a seed opens. Until then one admin takes it back with --cancel, which leaves the tenant as it was.`;

type DestroyOptions = RemoteOptions & { days: number; cancel?: true };

/** `keyvault tenants …` */
export function tenantsCommand(): Command {
  const destroy = new Command("destroy")
    .summary("end a tenant with all its keys (two admins)")
    .description(ABOUT_DESTROY)
    .argument("<tenant>", "the tenant's name", parseTenant);
  withRemoteOptions(destroy)
    .option("--days <days>", "days until the data key is erased, 7 to 30", parseDestructionDays, 30)
    .option("--cancel", "take the destruction back")
    .action(async (tenant: string, options: DestroyOptions) => {
      const path = `/v1/tenants/${encodeURIComponent(tenant)}/destroy`;
      const outcome = (await (options.cancel
        ? ask(options, `${path}/cancel`, {})
        : ask(options, path, { after_days: options.days }))) as TenantAnswer;
      process.stdout.write(options.json ? `${JSON.stringify(outcome)}\n` : describeAnswer(outcome));
    });
  return new Command("tenants").summary("destroy a tenant with all its keys").addCommand(destroy);
}

/** A tenant's name from the command line. Throws commander's error for what cannot be one. */
export function parseTenant(text: string): string {
  if (!TENANT.test(text)) throw new InvalidArgumentError("Give 1 to 128 letters, digits and ._:@-");
  return text;
}

function describeAnswer({ tenant, state, pending, destroy_at }: TenantAnswer): string {
  if (pending !== null) {
    return `Tenant ${tenant} is still ${state}: another admin must run the same command within 24 hours.\n`;
  }
  return `Tenant ${tenant} is ${state}${destroy_at === null ? "" : `; its data key is erased ${destroy_at}`}.\n`;
}
