import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAuthority } from "../keyvault/tls/authority.ts";
import {
  ConfigError,
  readApiConfig,
  readMigrateConfig,
  readOperatorConfig,
  readWorkerConfig,
} from "../src/config.ts";
import { kafkaSettings } from "../src/input/event_settings.ts";
import { vaultFiles } from "./support/vault_files.ts";

const environment = {
  DATABASE_URL: "postgres://localhost/none",
  SEALING_KEY: `${"A".repeat(43)}=`,
  VAULT_URL: "https://localhost",
  ...(await vaultFiles()),
  DEVELOPMENT: "true",
};

describe("SERVICE_ADMINISTRATORS", () => {
  test("accepts email addresses separated by commas, and is empty by default", () => {
    const named = (SERVICE_ADMINISTRATORS?: string) =>
      readApiConfig({ ...environment, BASE_URL: "http://127.0.0.1", SERVICE_ADMINISTRATORS })
        .SERVICE_ADMINISTRATORS;
    expect(named("ada@example.test, grace@example.test,")).toEqual([
      "ada@example.test",
      "grace@example.test",
    ]);
    expect([named(), named(""), named(" , ")]).toEqual([[], [], []]);
  });
});

test("ACCOUNT_CEILING accepts a list of scopes, and sets no limit by default", () => {
  const read = (ACCOUNT_CEILING?: string) =>
    readApiConfig({ ...environment, BASE_URL: "http://127.0.0.1", ACCOUNT_CEILING }).ACCOUNT_CEILING;
  expect(read()).toBeUndefined();
  expect(read(" data:* , custom:*")).toEqual(["data:*", "custom:*"]);
  expect(read("custom:orders:*")).toEqual(["custom:orders:*"]);
  for (const wrong of ["data", "data:*,x-a:b", "custom:", "custom:refund"]) {
    expect(() => read(wrong)).toThrow(ConfigError);
  }
});

test("the API refuses a key that does not belong to its certificate for the vault, before it starts", async () => {
  const day = 24 * 60 * 60 * 1000;
  const validity = { notBefore: new Date(Date.now() - day), notAfter: new Date(Date.now() + day) };
  const folder = await mkdtemp(join(tmpdir(), "deputize-pair-"));
  const key = join(folder, "key.pem");
  await writeFile(key, (await createAuthority(validity)).privateKey);
  const read = (settings: Record<string, string>) =>
    readApiConfig({ ...environment, BASE_URL: "https://a", ...settings });
  expect(() => read({ SMTP_URL: "smtp://m" })).not.toThrow();
  const mismatched = () => read({ SMTP_URL: "smtp://m", VAULT_KEY_FILE: key });
  expect(mismatched).toThrow(ConfigError);
  expect(mismatched).toThrow("VAULT_KEY_FILE: is not the key of VAULT_CERT_FILE");
  await rm(folder, { recursive: true });
});

describe("BASE_URL", () => {
  test.each([
    "http://127.0.0.1:8080",
    "https://api.example.com",
    "https://api.example.com/",
    "https://h/pdp/v1",
  ])("accepts %s without changing it", (url) =>
    expect(readApiConfig({ ...environment, BASE_URL: url }).BASE_URL).toBe(url),
  );

  test.each([
    "https:///x",
    "https:/x",
    "https:x",
    "https:\\\\x",
    "https://a\\b",
    "https://",
    "ftp://a",
    "https://u:p@a",
    "https://a?b",
    "https://a#b",
    "a.example",
  ])("rejects %s", (url) => {
    const read = () => readApiConfig({ ...environment, BASE_URL: url });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/BASE_URL: /);
  });
});

test.each([
  ["OPERATOR_TOKEN", "t".repeat(32), "t".repeat(31)],
  ["SEALING_KEY", `${"A".repeat(43)}=`, `${"A".repeat(42)}=`],
] as const)("%s accepts a value of the right length, and no shorter one", (name, good, short) => {
  const read = (value: string) => readApiConfig({ ...environment, BASE_URL: "https://a", [name]: value });
  expect(read(good)[name]).toBe(good);
  expect(() => read(short)).toThrow(new RegExp(`${name}: `));
});

test("every other URL setting must also contain a host", () => {
  const read = () => readApiConfig({ ...environment, BASE_URL: "https://a", VAULT_URL: "https:///x" });
  expect(read).toThrow(/VAULT_URL: must name its host/);
});

test("DOMAIN_RESOLVERS accepts addresses of DNS servers with optional ports", () => {
  const read = (value: string) =>
    readApiConfig({ ...environment, BASE_URL: "https://a", DOMAIN_RESOLVERS: value }).DOMAIN_RESOLVERS;
  expect(read("")).toEqual([]);
  expect(read("192.0.2.1, 192.0.2.2:5353,[2001:db8::1]:53")).toEqual([
    "192.0.2.1",
    "192.0.2.2:5353",
    "[2001:db8::1]:53",
  ]);
  for (const wrong of ["dns.example.com", "192.0.2.1:0x", "192.0.2", "https://192.0.2.1"]) {
    expect(() => read(wrong)).toThrow(/DOMAIN_RESOLVERS: /);
  }
});

test("SUPPORT_CONTACT accepts an email address or a URL", () => {
  const read = (value: string) =>
    readApiConfig({ ...environment, BASE_URL: "https://a", SUPPORT_CONTACT: value }).SUPPORT_CONTACT;
  for (const good of ["help@example.com", "https://example.com/help"]) expect(read(good)).toBe(good);
  expect(read("")).toBeUndefined();
  for (const wrong of ["call us", "javascript:alert(1)", "ftp://example.com", "a@b c"]) {
    expect(() => read(wrong)).toThrow(/SUPPORT_CONTACT: /);
  }
});

describe("the mail settings", () => {
  const read = (settings: Record<string, string>) =>
    readApiConfig({ ...environment, BASE_URL: "http://127.0.0.1", ...settings });

  test.each([
    "smtp://mail.example.com",
    "smtps://u:p@mail.example.com:465",
    "smtp://[::1]:25?requireTLS=true",
  ])("accept SMTP_URL=%s", (SMTP_URL) => expect(read({ SMTP_URL }).SMTP_URL).toBe(SMTP_URL));

  test.each(["mail.example.com:25", "smtp://", "smtp:mail", "https://mail.example.com", "smtp://a b"])(
    "reject SMTP_URL=%s",
    (SMTP_URL) => expect(() => read({ SMTP_URL })).toThrow(/SMTP_URL: must be smtp:/),
  );

  test.each(["a@example.com", "Deputize <no-reply@localhost>", "<a@b>", '"Ann, B." <a@example.com>'])(
    "accept MAIL_FROM=%s",
    (MAIL_FROM) => expect(read({ MAIL_FROM }).MAIL_FROM).toBe(MAIL_FROM),
  );

  test.each(["Deputize", "a@b@c", "Deputize a@example.com", "a@b, c@d", "A <a@b> <c@d>", "A\r\nBcc: <a@b>"])(
    "reject MAIL_FROM=%j",
    (MAIL_FROM) => expect(() => read({ MAIL_FROM })).toThrow(/MAIL_FROM: must be a mail address/),
  );
});

test("RECORDED_CLUSTER_ID refuses another id of the API's own cluster, and no other cluster", async () => {
  const folder = await mkdtemp(join(tmpdir(), "deputize-config-"));
  const file = join(folder, "clusters.yaml");
  const read = async (RECORDED_CLUSTER_ID: string, clusters: object[]) => {
    await writeFile(file, JSON.stringify({ clusters }));
    const files = { CLUSTERS_FILE: file, RECORDED_CLUSTER_ID };
    return readApiConfig({ ...environment, BASE_URL: "https://a", ...files }).CLUSTERS_FILE;
  };
  const other = { id: "prod-us", kubeconfig: "us.yaml" };
  try {
    expect(await read("prod-eu", [other, { id: "prod-eu" }])).toBe(file);
    expect(await read("", [{ id: "prod-eu" }])).toBe(file);
    expect(await read("prod-eu", [other])).toBe(file);
    await expect(read("prod-eu", [{ id: "prod-eu-2" }])).rejects.toThrow(
      "CLUSTERS_FILE: names the API's own cluster prod-eu-2, but the operator has recorded the id prod-eu",
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});

describe("a file with a secret", () => {
  let folder: string;
  let file: string;
  const value = `${"A".repeat(43)}=`;
  const missing = "/no/such/file";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-config-"));
    file = join(folder, "secret");
  });

  afterAll(() => rm(folder, { recursive: true }));

  const roles = {
    api: (settings: Record<string, string>) =>
      readApiConfig({ ...environment, BASE_URL: "https://a", ...settings }),
    worker: (settings: Record<string, string>) => readWorkerConfig({ ...environment, ...settings }),
    migrate: (settings: Record<string, string>) => readMigrateConfig({ ...environment, ...settings }),
    operator: (settings: Record<string, string>) =>
      readOperatorConfig({
        API_URL: "https://a",
        OPERATOR_API_URL: "https://a",
        CONSOLE_URL: "https://a",
        ...settings,
      }),
  };
  const sasl = { EVENTS: "kafka", KAFKA_BROKERS: "a:1", KAFKA_SASL_MECHANISM: "PLAIN", KAFKA_USERNAME: "u" };

  test.each<[keyof typeof roles, string, Record<string, string>]>([
    ["api", "DATABASE_URL", {}],
    ["api", "SEALING_KEY", {}],
    ["api", "SMTP_URL", {}],
    ["api", "OPERATOR_TOKEN", {}],
    ["worker", "DATABASE_URL", {}],
    ["worker", "SEALING_KEY", {}],
    ["worker", "KAFKA_PASSWORD", sasl],
    ["migrate", "DATABASE_URL", {}],
    ["migrate", "KAFKA_PASSWORD", sasl],
    ["operator", "OPERATOR_TOKEN", {}],
  ])("replaces the setting for the role %s: %s", async (role, name, more) => {
    const urls = { SMTP_URL: "smtp://mail.example.com", DATABASE_URL: "postgresql://db.example.com/own" };
    const content = { ...urls }[name] ?? value;
    await writeFile(file, `${content}\n`);
    const read = roles[role] as (settings: Record<string, string>) => Record<string, unknown>;
    const without = { ...more, [name]: "" };
    expect(read({ ...without, [`${name}_FILE`]: file })[name]).toBe(content);
    expect(() => read({ ...without, [`${name}_FILE`]: missing })).toThrow(
      `${name}_FILE: names a file that cannot`,
    );
  });

  test.each([
    ["one line break", "a secret \n", "a secret "],
    ["one Windows line break", "a secret \r\n", "a secret "],
    ["nothing", " a secret", " a secret"],
  ])("loses %s at its end", async (_, content, kept) => {
    const own = join(folder, "own");
    await writeFile(own, content);
    expect(roles.worker({ ...sasl, KAFKA_PASSWORD_FILE: own }).KAFKA_PASSWORD).toBe(kept);
  });

  test("must not be set together with the setting itself", async () => {
    await writeFile(file, "postgres://other");
    const own = { DATABASE_URL: "postgres://own" };
    expect(() => roles.worker({ ...own, DATABASE_URL_FILE: file })).toThrow(
      "DATABASE_URL_FILE: is set, and so is DATABASE_URL: set only one of them",
    );
    expect(roles.worker({ ...own, DATABASE_URL_FILE: "" }).DATABASE_URL).toBe("postgres://own");
    expect(() => roles.worker({ DATABASE_URL: "", DATABASE_URL_FILE: "" })).toThrow(/DATABASE_URL: /);
  });

  test("must not be empty", async () => {
    await writeFile(file, "\n");
    expect(() => roles.worker({ DATABASE_URL: "", DATABASE_URL_FILE: file })).toThrow(
      /DATABASE_URL_FILE: names an empty file$/,
    );
  });
});

describe("the event settings", () => {
  const worker = { DATABASE_URL: "postgres://", SEALING_KEY: `${"A".repeat(43)}=` };
  const kafka = { ...worker, EVENTS: "kafka", KAFKA_BROKERS: "one:9092, 127.0.0.1:9093" };
  const validity = { notBefore: new Date(0), notAfter: new Date("2100-01-01") };
  const read = (environment: Record<string, string>) => kafkaSettings(readWorkerConfig(environment));
  const faults = (environment: Record<string, string>): string => {
    try {
      read(environment);
      return "";
    } catch (error) {
      return (error as Error).message.replace("Settings are missing or wrong:\n  ", "");
    }
  };

  test("default to embedded events, and with Kafka to 12 partitions and three replicas", () => {
    expect(read(worker)).toBeUndefined();
    const usual = { prefix: "", partitions: 12, replication: 3 };
    expect(read(kafka)).toEqual({ brokers: ["one:9092", "127.0.0.1:9093"], ...usual });
  });

  test("accept TLS with a client certificate, and each authentication method", async () => {
    const { certificate: cert, privateKey: key } = await createAuthority(validity);
    const tls = { KAFKA_TLS: "true", KAFKA_CA: cert, KAFKA_CERT: cert, KAFKA_KEY: key };
    expect(read({ ...kafka, ...tls })?.tls).toEqual({ ca: cert, cert, key });
    for (const mechanism of ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]) {
      const sasl = { KAFKA_SASL_MECHANISM: mechanism, KAFKA_USERNAME: "u", KAFKA_PASSWORD: "p" };
      const expected = { mechanism: mechanism.toLowerCase(), username: "u", password: "p" };
      expect(read({ ...kafka, ...sasl })?.sasl).toEqual(expected);
    }
  });

  test("reject TLS files without KAFKA_TLS, a certificate without a key, and a key without a certificate", async () => {
    const { certificate, privateKey } = await createAuthority(validity);
    const tls = { ...kafka, KAFKA_TLS: "true" };
    expect(faults({ ...kafka, KAFKA_CA: certificate })).toBe("KAFKA_CA: needs KAFKA_TLS=true");
    expect(faults({ ...tls, KAFKA_CERT: certificate })).toBe("KAFKA_KEY: is required with KAFKA_CERT");
    expect(faults({ ...tls, KAFKA_KEY: privateKey })).toBe("KAFKA_CERT: is required with KAFKA_KEY");
  });

  /* The Kafka library accepts such files without an error, and then never connects. */
  test("reject invalid certificates and keys, and a key that does not match the certificate", async () => {
    const [{ certificate, privateKey }, other] = await Promise.all([
      createAuthority(validity),
      createAuthority(validity),
    ]);
    const tls = { ...kafka, KAFKA_TLS: "true", KAFKA_CERT: certificate, KAFKA_KEY: privateKey };
    expect(faults({ ...tls, KAFKA_CA: "/etc/ca.pem" })).toBe("KAFKA_CA: is not a certificate in PEM");
    expect(faults({ ...tls, KAFKA_CERT: privateKey })).toBe("KAFKA_CERT: is not a certificate in PEM");
    expect(faults({ ...tls, KAFKA_KEY: certificate })).toBe(
      "KAFKA_KEY: is not a private key without a passphrase in PEM",
    );
    expect(faults({ ...tls, KAFKA_KEY: other.privateKey })).toBe("KAFKA_KEY: is not the key of KAFKA_CERT");
  });

  test.each<[Record<string, string>, string]>([
    [{ ...worker, EVENTS: "kafka" }, "KAFKA_BROKERS: is required with EVENTS=kafka"],
    [{ ...worker, KAFKA_BROKERS: "one:9092" }, "KAFKA_BROKERS: needs EVENTS=kafka"],
    [{ ...kafka, KAFKA_BROKERS: "one" }, "KAFKA_BROKERS.0: must be <host>:<port>"],
    [{ ...kafka, KAFKA_BROKERS: "kafka://one:9092" }, "KAFKA_BROKERS.0: must be <host>:<port>"],
    [{ ...kafka, KAFKA_BROKERS: "[::1]:9092" }, "KAFKA_BROKERS.0: must be <host>:<port>"],
    [{ ...kafka, KAFKA_BROKERS: "one:65536" }, "KAFKA_BROKERS.0: must have a port from 1 to 65535"],
    [{ ...kafka, KAFKA_BROKERS: "one:0" }, "KAFKA_BROKERS.0: must have a port from 1 to 65535"],
    [
      { ...kafka, KAFKA_USERNAME: "u", KAFKA_PASSWORD: "secret" },
      "KAFKA_SASL_MECHANISM: is required with KAFKA_USERNAME and KAFKA_PASSWORD",
    ],
    [
      { ...kafka, KAFKA_SASL_MECHANISM: "PLAIN", KAFKA_USERNAME: "u" },
      "KAFKA_PASSWORD: is required with KAFKA_SASL_MECHANISM and KAFKA_USERNAME",
    ],
  ])("stop the startup with a message about %o", (environment, message) => {
    expect(faults(environment)).toBe(message);
  });

  test.each([
    ["KAFKA_PREFIX", "p".repeat(100), "p".repeat(101)],
    ["KAFKA_PREFIX", "a.b_c-1.", "a/b"],
  ])("accept a %s of %s, but not of %s", (name, good, bad) => {
    expect(faults({ ...kafka, [name]: good })).toBe("");
    expect(faults({ ...kafka, [name]: bad })).toContain(name);
  });
});
