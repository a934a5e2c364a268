import { describe, expect, test } from "vitest";
import { EXAMPLE, ofKind } from "./files.ts";
import {
  MADE_BY_FILES,
  MADE_BY_OPERATORS,
  READ_BY_FILES,
  READ_BY_VALUES,
  type SecretKey,
  templateOf,
} from "./secrets.ts";

const without = (all: readonly SecretKey[], others: readonly SecretKey[]) =>
  all.filter((key) => !others.includes(key));

describe("Secrets in the production example", () => {
  test("exist with every key that the values or other files name", () => {
    expect(READ_BY_VALUES.length).toBeGreaterThan(8);
    const made = [...MADE_BY_FILES, ...MADE_BY_OPERATORS];
    expect(without([...READ_BY_VALUES, ...READ_BY_FILES], made)).toEqual([]);
  });

  test("each have a reader in the chart or in the example's files", () => {
    expect(without(MADE_BY_FILES, [...READ_BY_VALUES, ...READ_BY_FILES])).toEqual([]);
  });

  test("each have exactly one creator", () => {
    const made = [...MADE_BY_FILES, ...MADE_BY_OPERATORS];
    expect(made.toSorted()).toEqual([...new Set(made)].sort());
  });

  test("come from the secret store", () => {
    for (const { metadata, spec } of ofKind("ExternalSecret")) {
      const given = (spec.data as { secretKey: string }[]).map(({ secretKey }) => secretKey);
      const used = JSON.stringify(spec.target?.template?.data ?? given).match(/(?<=\{\{ \.)\w+/g) ?? given;
      expect([...new Set(used)].sort(), metadata.name).toEqual(given.toSorted());
    }
  });
});

type Database = {
  values: object;
  secret: string;
  cluster: string;
  ca: string;
  roles: Record<string, string>;
};
const { database, keyvault } = EXAMPLE as Record<string, { database: object }> & { database: object };
const DATABASES: [string, Database][] = [
  [
    "the service's",
    {
      values: database ?? {},
      secret: "deputize-database",
      cluster: "deputize-db",
      ca: "/run/secrets/deputize/database-ca/ca.crt",
      roles: { url: "deputize" },
    },
  ],
  [
    "the vault's",
    {
      values: keyvault?.database ?? {},
      secret: "deputize-keyvault-database",
      cluster: "deputize-keyvault-db",
      ca: "/run/secrets/deputize/keyvault-database-ca/ca.crt",
      roles: { url: "keyvault", migrationUrl: "keyvault_owner" },
    },
  ],
];

describe.each(DATABASES)(
  "%s database in the production example",
  (_, { values, secret, cluster, ca, roles }) => {
    const found = ofKind("Cluster").find(({ metadata }) => metadata.name === cluster);
    const { initdb } = found?.spec.bootstrap ?? {};
    const managed: { name: string; passwordSecret: { name: string } }[] = found?.spec.managed?.roles ?? [];
    const passwords: Record<string, string> = {
      [initdb.owner]: initdb.secret.name,
      ...Object.fromEntries(managed.map(({ name, passwordSecret }) => [name, passwordSecret.name])),
    };

    test("has URLs to its primary, with the right roles and verified TLS", () => {
      expect(values).toMatchObject({
        existingSecret: { name: secret },
        ca: { existingSecret: { name: `${cluster}-ca` } },
      });
      const urls = Object.entries(templateOf(secret)).map(([key, template]) => {
        const url = new URL(template.replaceAll(/\{\{.*?\}\}/g, "password"));
        expect(url.host, key).toBe(`${cluster}-rw.${found?.metadata.namespace}.svc:5432`);
        expect(url.pathname).toBe(`/${initdb.database}`);
        expect(Object.fromEntries(url.searchParams)).toEqual({ sslmode: "verify-full", sslrootcert: ca });
        return [key, url.username];
      });
      expect(Object.fromEntries(urls)).toEqual(roles);
    });

    test("has a role for each URL, with the same password as in the URL", () => {
      expect(Object.keys(passwords).sort()).toEqual(Object.values(roles).sort());
      for (const [key, role] of Object.entries(roles)) {
        expect(templateOf(passwords[role] ?? "")).toMatchObject({ username: role });
        const [property] = templateOf(secret)[key]?.match(/(?<=\{\{ \.)\w+/) ?? [];
        expect(sourceOf(secret, property)).toEqual(sourceOf(passwords[role] ?? "", "password"));
      }
    });

    test("has its own backup schedule, and refuses connections without TLS", () => {
      const plans = ofKind("ScheduledBackup").filter(({ spec }) => spec.cluster.name === cluster);
      expect(plans.map(({ spec }) => spec.method)).toEqual(["plugin"]);
      const [plugin] = found?.spec.plugins ?? [];
      expect(plugin).toMatchObject({ isWALArchiver: true, name: plans[0]?.spec.pluginConfiguration.name });
      expect(ofKind("ObjectStore").map(({ metadata }) => metadata.name)).toEqual([
        plugin.parameters.barmanObjectName,
      ]);
      expect(found?.spec.postgresql.pg_hba).toEqual(["hostnossl all all all reject"]);
    });
  },
);

/** Returns the place in the secret store from which a value of an ExternalSecret comes. */
function sourceOf(name: string, property: string | undefined): unknown {
  const found = ofKind("ExternalSecret").find(({ metadata }) => metadata.name === name);
  const data: { secretKey: string; remoteRef: object }[] = found?.spec.data ?? [];
  const source = data.find(({ secretKey }) => secretKey === property)?.remoteRef;
  expect(source, `${name} ${property}`).toBeDefined();
  return source;
}
