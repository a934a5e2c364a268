import { z } from "zod";
import type { ClusterClient } from "../../kubernetes/client.ts";
import { isStatus } from "../../kubernetes/cluster_error.ts";
import type { SweepRecords } from "../sweeper.ts";

/** Name of the ConfigMap with the records. */
export const RECORDS_NAME = "deputize-orphans";
const KEY = "orphans.json";
const CONFIRMED = "deputize.io/confirmed";

const configMap = z.object({
  metadata: z.object({ annotations: z.record(z.string(), z.string()).optional() }),
  data: z.record(z.string(), z.string()).optional(),
});

const record = z.object({
  checkedAt: z.string(),
  epoch: z.number(),
  state: z.enum(["ok", "held"]),
  why: z.string().optional(),
  items: z.array(
    z.object({
      externalID: z.string(),
      kind: z.literal("Delegation"),
      namespace: z.string().nullable(),
      name: z.string().nullable(),
      status: z.enum(["pending", "approved"]),
      since: z.iso.datetime(),
      revokeAt: z.iso.datetime().optional(),
      confirmed: z.literal(true).optional(),
    }),
  ),
  more: z.number().optional(),
});

/** Creates access to the sweep records in the ConfigMap `deputize-orphans` of the operator's namespace. */
export function createSweepRecords(client: Pick<ClusterClient, "core">, namespace: string): SweepRecords {
  const place = { namespace, name: RECORDS_NAME };
  return {
    async read() {
      const answer = await client.core.readNamespacedConfigMap(place).catch((error: unknown) => {
        if (isStatus(error, 404)) return undefined;
        throw error;
      });
      if (answer === undefined) return undefined;
      const { metadata, data } = configMap.parse(answer);
      const confirmed = Number(metadata.annotations?.[CONFIRMED]);
      const read = record.safeParse(decoded(data?.[KEY] ?? ""));
      if (!read.success) return undefined;
      return { record: read.data, confirmed: Number.isInteger(confirmed) ? confirmed : undefined };
    },
    async write(next, { isTaken }) {
      const data = { [KEY]: JSON.stringify(next, undefined, 1) };
      const body = { data, ...(isTaken && { metadata: { annotations: { [CONFIRMED]: null } } }) };
      try {
        await client.core.patchNamespacedConfigMap({ ...place, body });
      } catch (error) {
        if (!isStatus(error, 404)) throw error;
        await client.core.createNamespacedConfigMap({ namespace, body: { metadata: place, data } });
      }
    },
  };
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
