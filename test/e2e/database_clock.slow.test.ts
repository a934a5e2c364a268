import { Client, Pool } from "pg";
import { afterEach, describe, expect, test, vi } from "vitest";
import { maintainPartitions } from "../../src/proofs/decide/partitions.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { killRoles, type RoleProcess, startRole } from "../support/role_process.ts";
import { shiftDatabaseClock } from "../support/surroundings/database_clock.ts";
import { vaultFiles } from "../support/vault_files.ts";

vi.setConfig({ testTimeout: 120_000 });

/* The clock of the database's machine is wrong. API and worker have the clock of this machine. */

const HOUR = 3_600;
const DAY = 24 * HOUR;
const both = (...seconds: number[]) => seconds.flatMap((one) => [one, -one]);
const roles: RoleProcess[] = [];
let database: TestDatabase;
let client: Client;

afterEach(async () => {
  await killRoles(roles);
  await client.end();
  await database.drop();
});

/** Starts an API and a worker, after rows were stored that are not old by this machine's clock. */
async function start(seconds: number): Promise<RoleProcess[]> {
  database = await migratedDatabase();
  client = new Client({ connectionString: database.url });
  await client.connect();
  const pool = new Pool({ connectionString: database.url, max: 1 });
  await maintainPartitions(pool, new Date());
  await pool.end();
  await client.query("insert into inbox values ('kept', gen_random_uuid(), now())");
  await client.query("insert into rate_limits values ('kept', 1, $1)", [Date.now() + HOUR * 1000]);
  await shiftDatabaseClock(database.url, seconds);
  const common = {
    DATABASE_URL: database.url,
    SEALING_KEY: `${"A".repeat(43)}=`,
    PATH: process.env.PATH ?? "",
  };
  const api = {
    ...common,
    ...(await vaultFiles()),
    ...{ VAULT_URL: "https://127.0.0.1:1", BASE_URL: "http://127.0.0.1", DEVELOPMENT: "true", PORT: "0" },
  };
  roles.push(startRole("api", api), startRole("worker", common));
  const isUp = ({ log }: RoleProcess) => log.some(({ msg }) => msg === "ready");
  await until("both have started", () => roles.every(isUp), 60_000);
  return roles;
}

/** Returns what the clock can make old: rows, and partitions of spent challenges. */
async function stored(): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select 'inbox' as name from inbox where consumer = 'kept'
     union all select 'rate_limits' from rate_limits where key = 'kept'
     union all select inhrelid::regclass::text from pg_inherits
       where inhparent = 'spent_challenges'::regclass and inhrelid::regclass::text <> 'spent_challenges_other'
     order by name`,
  );
  return rows.map(({ name }) => name);
}

async function read({ log }: RoleProcess, path: string): Promise<string> {
  const port = log.find((line) => "health_port" in line)?.health_port;
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return `${response.status} ${await response.text()}`;
}

/** Returns the name of the partition for challenges of this hour. */
function partitionNow(): string {
  return `spent_challenges_${new Date().toISOString().slice(0, 13).replaceAll(/[-T]/g, "_")}`;
}

/** Returns by how many seconds the clock of the role's machine is ahead of the database's. */
async function offset(role: RoleProcess): Promise<number> {
  const [, value] = /^deputize_clock_offset_seconds (.*)$/m.exec(await read(role, "/metrics")) ?? [];
  return Number(value);
}

describe.each(both(3 * HOUR, 40 * DAY))(
  "API and worker with a database whose clock is wrong by %d s",
  (seconds) => {
    test("delete nothing, are not ready, and say why", async () => {
      const before = partitionNow();
      const running = await start(seconds);
      const rows = await stored();
      expect(rows).toEqual(expect.arrayContaining(["inbox", "rate_limits"]));
      expect([before, partitionNow()].some((partition) => rows.includes(partition))).toBe(true);
      for (const role of running) {
        expect(await read(role, "/readyz")).toMatch(/^503 not ready: this machine's clock is \d+\.\d s /);
        expect(await offset(role)).toBeCloseTo(-seconds, -1);
      }
    });
  },
);

describe.each(both(2, 3))("API and worker with a database whose clock is wrong by %d s", (seconds) => {
  test("become ready, and show the difference", async () => {
    for (const role of await start(seconds)) {
      await role.ready();
      expect(await offset(role)).toBeCloseTo(-seconds, 0);
    }
    expect(await stored()).toEqual(expect.arrayContaining(["inbox", "rate_limits"]));
  });
});
