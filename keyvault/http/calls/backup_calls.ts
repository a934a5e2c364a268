import { z } from "zod";
import type { CreateBackup } from "../../backup/create.ts";
import { readBody } from "../body.ts";
import type { Call } from "./calls.ts";

const nothing = z.strictObject({});

/** The call that gives a backup: `application/octet-stream`, encrypted to the recovery key. */
export function createBackupCalls({ createBackup }: { createBackup: CreateBackup }): readonly Call[] {
  return [
    {
      method: "POST",
      path: "/v1/backup",
      roles: ["admin", "backup"],
      handle: async ({ caller, context }) => {
        await readBody(context, nothing);
        return createBackup(caller);
      },
    },
  ];
}
