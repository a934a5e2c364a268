import { Command } from "commander";
import type { Status } from "../status.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./remote.ts";

/** `keyvault status` */
export function statusCommand(): Command {
  const command = new Command("status")
    .summary("show what a running vault is and has")
    .description(
      "Show a running vault's token, keys and audit head. Needs an admin's or auditor's certificate.",
    );
  return withRemoteOptions(command).action(async (options: RemoteOptions) => {
    const status = (await ask(options, "/v1/status")) as Status;
    process.stdout.write(options.json ? `${JSON.stringify(status)}\n` : describe(status));
  });
}

function describe({ token, kek, keys, audit }: Status): string {
  const lines: [string, string][] = [
    [
      "token",
      `${token.answers ? "answers" : "DOES NOT ANSWER"} (${token.manufacturer}, ${token.model}, serial ${token.serial})`,
    ],
    ["key encryption", `${token.keks.join(", ")}${rewrapping(kek)}`],
    ["keys", `${keys.active} active, ${keys.disabled} disabled${endings(keys)}, of ${keys.tenants} tenants`],
    ["audit", `${audit.records} records`],
    ["audit head", `${audit.records}:${audit.head}`],
  ];
  return lines.map(([name, value]) => `${name.padEnd(15)} ${value}\n`).join("");
}

function rewrapping({ kek, running, remaining }: Status["kek"]): string {
  if (remaining === 0) return "";
  return `; ${remaining} data keys are not under ${kek} yet${running ? " (rewrapping)" : ': "keyvault kek rewrap"'}`;
}

function endings({ destroying, destroyed }: Status["keys"]): string {
  return destroying + destroyed === 0 ? "" : `, ${destroying} to be destroyed, ${destroyed} destroyed`;
}
