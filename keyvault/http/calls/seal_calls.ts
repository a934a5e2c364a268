import { z } from "zod";
import type { Sealing } from "../../lifecycle/sealing.ts";
import type { ReadStatus } from "../../status.ts";
import { readBody } from "../body.ts";
import type { Call } from "./calls.ts";

/** The operations of a sealed vault as well as of an open one. */
export type SealOperations = { sealing: Sealing; readStatus: ReadStatus };

const nothing = z.strictObject({});
const sealedPin = z.strictObject({
  offer: z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "base64 of 32 bytes"),
  box: z.string().regex(/^[A-Za-z0-9+/]{405}[AQgw]==$/, "base64 of 304 bytes"),
});

/** The calls that a sealed vault answers too. */
export function createSealCalls({ sealing, readStatus }: SealOperations): readonly Call[] {
  return [
    {
      method: "GET",
      path: "/v1/status",
      roles: ["admin", "auditor"],
      handle: () => readStatus(),
    },
    {
      method: "POST",
      path: "/v1/seal",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        await readBody(context, nothing);
        return { sealed: true, ...(await sealing.seal(caller)) };
      },
    },
    {
      method: "GET",
      path: "/v1/unseal",
      roles: ["admin"],
      handle: async () => sealing.offer(),
    },
    {
      method: "POST",
      path: "/v1/unseal",
      roles: ["admin"],
      handle: async ({ caller, context }) => sealing.unseal(caller, await readBody(context, sealedPin)),
    },
  ];
}
