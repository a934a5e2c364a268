import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { newCertificateId } from "../../../src/ids.ts";
import { verifyRevocationList } from "../../../src/protocol/statements/revocation_list.ts";
import { createVaultClient } from "../../../src/vault/client.ts";

/** Each list uses a different second, at most 60 s from the vault's clock. */
export type ListOrder = { url: string; tlsDir: string; tenant: string; length: number; rounds: number };

const PAUSE_MS = 50;

/** This work runs in a separate thread, so that it does not delay the client's other measurements. */
const { url, tlsDir, tenant, length, rounds } = workerData as ListOrder;
const read = (name: string): Buffer => readFileSync(join(tlsDir, name));
const client = createVaultClient({ url, ca: read("ca.pem"), cert: read("api.pem"), key: read("api.key") });
const root = await client.createKey(
  { tenant, purpose: "account_root", label: "root" },
  `bench-root-${tenant}`,
);
const revoked = Array.from({ length }, () => ({ certId: newCertificateId(), expiresAt: null }));
const first = Math.floor(Date.now() / 1000) - 30;
const times: number[] = [];
for (let round = 0; round < rounds; round += 1) {
  const began = performance.now();
  const list = await client.statements.revocationList(
    { tenant, keyId: root.key_id },
    { updatedAt: first + round, revoked },
  );
  times.push(performance.now() - began);
  if ((await verifyRevocationList(list, root.public_key)) !== undefined) {
    throw new Error("The list is invalid");
  }
  await sleep(PAUSE_MS);
}
await client.close();
parentPort?.postMessage(times);
