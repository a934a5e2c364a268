import { z } from "zod";
import type { RetireKek } from "../../kek/retire.ts";
import type { Rewrapping } from "../../kek/rewrap.ts";
import type { RotateKek } from "../../kek/rotate.ts";
import { readBody } from "../body.ts";
import type { Call } from "./calls.ts";

/** The operations behind the calls that change the key-encryption key. */
export type KekOperations = {
  rotateKek: RotateKek;
  retireKek: RetireKek;
  rewrapping: Pick<Rewrapping, "start">;
};

const nothing = z.strictObject({});
const version = z.strictObject({ kek: z.string().regex(/^kek-[1-9]\d{0,8}$/) });

/**
 * Calls on the versions of the key-encryption key. `rewrap` answers immediately; the status shows its
 * progress.
 */
export function createKekCalls({ rotateKek, retireKek, rewrapping }: KekOperations): readonly Call[] {
  return [
    {
      method: "POST",
      path: "/v1/kek/rotate",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        await readBody(context, nothing);
        return rotateKek(caller);
      },
    },
    {
      method: "POST",
      path: "/v1/kek/rewrap",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        await readBody(context, nothing);
        return rewrapping.start(caller);
      },
    },
    {
      method: "POST",
      path: "/v1/kek/retire",
      roles: ["admin"],
      handle: async ({ caller, context }) => retireKek(caller, (await readBody(context, version)).kek),
    },
  ];
}
