import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Load, Seen } from "./client.ts";

export type Measured = Seen & { perSecond: number };

/** Connections go to `port`, or to several ports in turn. */
type Place = { port: number | number[]; folder: string };

/** Sends each request once from a separate process. Rejects unless every response allows its call. */
export async function measureLoad(
  place: Place,
  requests: readonly Buffer[],
  connections: number,
): Promise<Measured> {
  const seen = await (await prepareLoad(place, requests, { connections })).run();
  if (seen.refused + seen.other > 0) throw new Error(`${seen.allowed} of ${requests.length} were allowed`);
  return seen;
}

/**
 * Prepares a client, so that its start does not delay other work. `run` sends the requests for at most `ms`
 * milliseconds, and repeats those that get 503. It counts any response except allows and 503 as `other`.
 */
export async function prepareLoad(
  { port, folder }: Place,
  requests: readonly Buffer[],
  { connections, ms, name = "requests" }: { connections: number; ms?: number; name?: string },
): Promise<{ run(): Promise<Measured> }> {
  const file = join(folder, name);
  await writeFile(file, Buffer.concat(requests));
  const lengths = requests.map(({ length }) => length);
  const load: Load = { ports: [port].flat(), connections, file, lengths, ...(ms !== undefined && { ms }) };
  const client = fork(fileURLToPath(new URL("client.ts", import.meta.url)));
  return {
    async run() {
      client.send(load);
      const [seen] = (await once(client, "message")) as [Seen];
      client.disconnect();
      return { ...seen, perSecond: seen.allowed / (seen.ms / 1000) };
    },
  };
}
