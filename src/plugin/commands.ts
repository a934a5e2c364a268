import type { Command } from "./command.ts";
import { check } from "./commands/check.ts";
import { approve, deny } from "./commands/decide.ts";
import { link } from "./commands/link.ts";
import { renew } from "./commands/renew.ts";
import { revoke } from "./commands/revoke.ts";
import { rotateKey } from "./commands/rotate_key.ts";
import { status } from "./commands/status.ts";
import { whoCanApprove } from "./commands/who_can_approve.ts";

/** All commands by name, in the order of the help text. */
export const commands: Readonly<Record<string, Command>> = {
  status,
  approve,
  deny,
  revoke,
  renew,
  "rotate-key": rotateKey,
  "who-can-approve": whoCanApprove,
  link,
  check,
};
