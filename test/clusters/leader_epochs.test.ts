import { randomUUID } from "node:crypto";
import { Pool } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { heldRows } from "../support/held_rows.ts";

const api = runningApi();
let pool: Pool;
const { hold, untilBlocked } = heldRows(() => pool);

beforeAll(() => {
  pool = new Pool({ connectionString: api.databaseUrl });
});
afterAll(() => pool.end());

const PATH = "/internal/v1/leadership";

test("each leader learns the epoch of the leader before it, even if both claim at the same moment", async () => {
  const cluster = randomUUID();
  const claim = async () => {
    const { body } = await api.operator("POST", PATH, { holder: "operator" }, { cluster, epoch: 0 });
    return body as { epoch: number; former_epoch: number | null };
  };
  const first = await claim();
  expect(first.former_epoch).toBeNull();
  const row = await hold("select from operator_clusters where cluster_id = $1 for update", [cluster]);
  const claims = [claim(), claim()];
  await untilBlocked(2);
  await row.commit();
  const [second, third] = (await Promise.all(claims)).sort((left, right) => left.epoch - right.epoch);
  expect(second?.former_epoch).toBe(first.epoch);
  expect(third?.former_epoch).toBe(second?.epoch);
});
