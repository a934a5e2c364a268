import { chown, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createClient, openDatabase as openVault } from "../../keyvault/db/database.ts";
import { createLog } from "../../keyvault/log.ts";
import { createAuthority, type Identity, issueCertificate } from "../../keyvault/tls/authority.ts";
import { openDatabase, openPool } from "../../src/db/database.ts";
import { type RunningPostgres, startPostgres } from "../../src/dev/postgres/postgres.ts";
import { until } from "../support/process.ts";

const START_MS = 60_000;
const validity = { notBefore: new Date(0), notAfter: new Date("2100-01-01") };
const silent = { onError: () => {} };
const IS_TLS = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

type Query = (url: string) => Promise<unknown>;

/** One query for each way in which the service and the vault connect to their databases. */
const WAYS: [string, Query][] = [
  [
    "the service's queries",
    async (url) => {
      const database = openDatabase({ url, name: "test", max: 1, ...silent });
      return database.raw(IS_TLS).finally(() => database.destroy());
    },
  ],
  ["decisions", decide],
  [
    "the vault's queries",
    async (url) => {
      const database = openVault(url, createLog("silent"), 1);
      return database.raw(IS_TLS).finally(() => database.destroy());
    },
  ],
  [
    "the vault's audit",
    async (url) => {
      const client = createClient(url);
      try {
        await client.connect();
        return await client.query(IS_TLS);
      } finally {
        await client.end().catch(() => {});
      }
    },
  ],
];

async function decide(url: string): Promise<unknown> {
  const pool = openPool({ url, name: "test", max: 1, ...silent });
  return pool.query(IS_TLS).finally(() => pool.end());
}

describe("a database connection that verifies the server's certificate", () => {
  let folder: string;
  let postgres: RunningPostgres;
  let authority: Identity;
  const path = (name: string) => join(folder, name);

  async function show(host: string, issuer = authority): Promise<void> {
    const { certificate, privateKey } = await issueCertificate(
      issuer,
      { kind: "server", names: [host] },
      validity,
    );
    const { uid, gid } = await stat(path("postgres"));
    for (const [name, text] of [
      ["server.crt", certificate],
      ["server.key", privateKey],
    ] as const) {
      await writeFile(path(`postgres/${name}`), text, { mode: 0o600 });
      await chown(path(`postgres/${name}`), uid, gid);
    }
    const client = new Client({ connectionString: postgres.superuserUrl("postgres") });
    await client.connect();
    await client.query("alter system set ssl = on");
    await client.query("select pg_reload_conf()");
    await client.end();
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-tls-"));
    postgres = await startPostgres({ dataDir: path("postgres") });
    authority = await createAuthority(validity);
  }, START_MS);
  afterAll(async () => {
    await postgres?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const url = () => {
    const found = new URL(postgres.superuserUrl("postgres"));
    found.hostname = "localhost";
    found.searchParams.set("sslmode", "verify-full");
    found.searchParams.set("sslrootcert", path("ca.crt"));
    return found.href;
  };

  const isReached = (query: Query) =>
    query(url()).then(
      () => true,
      () => false,
    );

  beforeEach(async () => {
    await writeFile(path("ca.crt"), authority.certificate);
    await show("localhost");
    await until("the certificate is shown", () => isReached(decide));
  });

  test("uses TLS for every kind of query", async () => {
    for (const [way, query] of WAYS) {
      expect(await query(url()), way).toMatchObject({ rows: [{ ssl: true }] });
    }
  });

  test("fails for every kind of query if a different authority issued the certificate", async () => {
    const other = await createAuthority(validity);
    await writeFile(path("ca.crt"), other.certificate);
    for (const [way, query] of WAYS) await expect(query(url()), way).rejects.toThrow(/certificate/);
  });

  test("fails for every kind of query if the certificate belongs to a different host", async () => {
    await show("elsewhere.test");
    await until("that certificate is shown", async () => !(await isReached(decide)));
    for (const [way, query] of WAYS) await expect(query(url()), way).rejects.toThrow(/altnames|Hostname/);
  });

  test("succeeds with a new authority's certificate as soon as the file contains that authority", async () => {
    const pool = openPool({ url: url(), name: "test", max: 2, ...silent });
    try {
      await pool.query(IS_TLS);
      const next = await createAuthority(validity);
      await show("localhost", next);
      await writeFile(path("ca.crt"), next.certificate);
      await until("a new connection is good", async () => {
        const client = await pool.connect().catch(() => undefined);
        const second = await pool.connect().catch(() => undefined);
        client?.release();
        second?.release(true);
        return second !== undefined;
      });
    } finally {
      await pool.end();
    }
  });
});
