import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { until } from "../support/process.ts";
import { runPart } from "../support/run_parts.ts";

let owner: TestApi;
let api: TestApi;
let admin: pg.Client;
let person: Person;
const role = `login_${randomBytes(6).toString("hex")}`;
const name = () => new URL(owner.databaseUrl).pathname.slice(1);

beforeAll(async () => {
  admin = new pg.Client({ connectionString: runPart("postgresUrl") });
  await admin.connect();
  await admin.query(`create role ${role} superuser login password 'right'`);
  owner = await startApi();
  const url = new URL(owner.databaseUrl);
  [url.username, url.password] = [role, "right"];
  api = await startApi({ shares: owner, databaseUrl: url.href });
  person = await api.person();
});
afterAll(async () => {
  await api.stop();
  await owner.stop();
  await admin.query(`drop role ${role}`);
  await admin.end();
});

const call = () => person.client.get("/v1/service/credits");

test.each([
  [
    "refuses the login",
    () => `alter role ${role} password 'other'`,
    () => `alter role ${role} password 'right'`,
  ],
  [
    "lacks the role",
    () => `alter role ${role} rename to other_${role}`,
    () => `alter role other_${role} rename to ${role}; alter role ${role} password 'right'`,
  ],
  [
    "lacks the database",
    () => `alter database ${name()} rename to other_${name()}`,
    () => `alter database other_${name()} rename to ${name()}`,
  ],
])(
  "the API answers 503 with Retry-After while the server %s, and works again afterwards",
  async (_, fault, mend) => {
    expect((await call()).status).toBe(200);
    await until("the fault is there", async () => {
      await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", [
        name(),
      ]);
      return admin.query(fault()).then(
        () => true,
        () => false,
      );
    });
    await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", [role]);
    const refused = await call();
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    await admin.query(mend());
    await until("it works", async () => (await call()).status === 200);
  },
);
