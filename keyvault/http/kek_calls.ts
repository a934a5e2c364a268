import { z } from "zod";
import type { Rewrapping } from "../kek/rewrap.ts";
import type { RotateKek } from "../kek/rotate.ts";
import { readBody } from "./body.ts";
import type { Call } from "./calls.ts";

/** The operations behind the calls that change the key-encryption key. */
export type KekOperations = { rotateKek: RotateKek; rewrapping: Pick<Rewrapping, "start"> };

const nothing = z.strictObject({});

/** Calls that change which key-encryption key wraps. `rewrap` answers at once; the status tells how far it is. */
export function createKekCalls({ rotateKek, rewrapping }: KekOperations): readonly Call[] {
  return [
    {
      method: "POST",
      path: "/v1/kek/rotate",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        await readBody(context.req, nothing);
        return rotateKek(caller);
      },
    },
    {
      method: "POST",
      path: "/v1/kek/rewrap",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        await readBody(context.req, nothing);
        return rewrapping.start(caller);
      },
    },
  ];
}
