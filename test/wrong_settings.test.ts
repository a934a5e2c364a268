import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type Environment, faultOf, jsonSchemaOf, type Role, roles } from "./support/setting_roles.ts";
import { wrongEnvironment, wrongValues } from "./support/wrong_settings.ts";

const folder = mkdtempSync(join(tmpdir(), "deputize-wrong-settings-"));
const file = join(folder, "file");
writeFileSync(file, "not a certificate");
afterAll(() => rmSync(folder, { recursive: true }));

const namesOf = ({ schemas }: Role) => [...new Set(schemas.flatMap((schema) => Object.keys(schema.shape)))];
const settings = Object.entries(roles).flatMap(([role, about]) =>
  namesOf(about).map((name): [role: string, name: string] => [role, name]),
);
/** Further settings with which the role uses this setting at all. */
const NEEDED: Environment = { KAFKA_CA: "true", KAFKA_CERT: "true", KAFKA_KEY: "true" };
const withNeeded = (name: string): Environment => (name in NEEDED ? { KAFKA_TLS: "true" } : {});
const linesOf = (message: string) => message.split("\n").map((line) => line.trim());
const hasFaultOf = (name: string, message: string) =>
  linesOf(message).some((line) => new RegExp(`^${name}(\\.\\d+)?: `).test(line));

describe("each setting has a kind, and the role refuses a wrong value of this kind", () => {
  test.each(settings)("%s: %s", (role, name) => {
    const values = wrongValues(jsonSchemaOf(role, name), { file, folder });
    expect(values.length, "add the kind to the table of wrong values").toBeGreaterThan(0);
    for (const value of values) {
      const message = faultOf(role, { ...withNeeded(name), [name]: value });
      expect(hasFaultOf(name, message), `${name}=${value} gives: ${message}`).toBe(true);
      if (value.length > 12) expect(linesOf(message).join("\n")).not.toContain(value);
    }
  });
});

/** An operator has the settings of a folder, or without them those of a cluster. */
const FOLDERS = ["MANIFESTS_DIR", "STATUS_DIR", "SECRETS_DIR"];
const OF_CLUSTER = ["KUBECONFIG", "KUBE_CONTEXT", "OPERATOR_NAMESPACE", "CLUSTER_ID"];
test.each<[role: string, where: string, without: string[]]>([
  ...Object.keys(roles).map((role): [string, string, string[]] => [role, "", []]),
  ["operator", " in a cluster", FOLDERS],
])("the role %s%s reports all its faulty settings in one list", (name, where, without) => {
  const role = roles[name] as Role;
  const environment = { ...wrongEnvironment(role, { file, folder }) };
  for (const each of without) delete environment[each];
  const message = faultOf(name, environment);
  const missing = namesOf(role).filter((setting) => !hasFaultOf(setting, message));
  // With both OPERATOR_TOKEN and OPERATOR_TOKEN_FILE, the latter is reported.
  const others = name !== "operator" ? [] : where === "" ? OF_CLUSTER : FOLDERS;
  expect(missing.sort()).toEqual(name === "operator" ? [...others, "OPERATOR_TOKEN"].sort() : []);
});

test("faults between settings appear in the same list as faults of one setting", () => {
  const message = faultOf("worker", { LOG_LEVEL: "loud", EVENTS: "kafka", KAFKA_USERNAME: "u" });
  expect(linesOf(message).slice(1)).toEqual([
    "LOG_LEVEL: must be debug, info, warn, error or silent",
    "KAFKA_BROKERS: is required with EVENTS=kafka",
    "KAFKA_SASL_MECHANISM: is required with KAFKA_USERNAME",
    "KAFKA_PASSWORD: is required with KAFKA_USERNAME",
  ]);
  expect(linesOf(faultOf("api", { SMTP_URL: undefined, DRAIN_SECONDS: "x", VAULT_KEY_FILE: file }))).toEqual([
    "Settings are missing or wrong:",
    "DRAIN_SECONDS: must be a whole number from 0 to 300",
    "SMTP_URL: is required to send sign-in codes",
    "VAULT_KEY_FILE: is not a private key without a passphrase in PEM",
  ]);
});

test("a faulty setting appears once, although other settings need it", () => {
  const message = faultOf("worker", { EVENTS: "kafka", KAFKA_BROKERS: "one" });
  expect(linesOf(message).slice(1)).toEqual(["KAFKA_BROKERS.0: must be <host>:<port>"]);
  expect(linesOf(faultOf("api", { SMTP_URL: "mail" })).slice(1)).toEqual([
    "SMTP_URL: must be smtp://<host>:<port> or smtps://…",
  ]);
});

describe("names that are not settings", () => {
  test.each([
    ["api", "SMPT_URL", "SMTP_URL"],
    ["api", "SMTTP_URL", "SMTP_URL"],
    ["api", "SMT_URL", "SMTP_URL"],
    ["worker", "EVNTS", "EVENTS"],
    ["api", "smtp_url", "SMTP_URL"],
    ["api", "TRUSTED_PROXY", "TRUSTED_PROXIES"],
    ["api", "DEPUTIZE_BASE_URL", "BASE_URL"],
    ["api", "SEALING_KEY_FIEL", "SEALING_KEY_FILE"],
    ["api", "PROT", "PORT"],
    ["worker", "DATABSE_URL_FILE", "DATABASE_URL_FILE"],
    ["migrate", "KAFKA_REPLICAS", undefined],
    ["operator", "WATCH_NAMESPACE", "WATCH_NAMESPACES"],
    ["credits", "DATABASEURL", "DATABASE_URL"],
    ["vault", "KEYVAULT_PROT", "KEYVAULT_PORT"],
    ["vault", "KEYVUALT_PORT", "KEYVAULT_PORT"],
    ["vault", "KEYVAULT_MODULE", undefined],
    ["vault", "KEYVAULT_HOST_FILE", "KEYVAULT_HOST"],
  ])("the role %s reports %s", (role, name, meant) => {
    const isReported = faultOf(role, { [name]: "x" });
    const expected = meant === undefined ? ": remove it" : `: did you mean ${meant}?`;
    if (role === "migrate") expect(isReported).toBe("");
    else expect(linesOf(isReported).slice(1)).toEqual([`${name}: is not a setting${expected}`]);
  });

  test.each([
    ["api", "SMTP_URI", "SMTP_URL"],
    ["api", "DATABASE_URI", "DATABASE_URL"],
    ["operator", "CONSOLE_URI", "CONSOLE_URL"],
    ["worker", "DATABASE_SSL", "DATABASE_URL"],
    ["api", "SMXP_URL", "SMTP_URL"],
    ["api", "MAIL_FROG", "MAIL_FROM"],
  ])("the role %s reports %s only if %s is not set", (role, name, meant) => {
    const without = { [meant]: undefined, [`${meant}_FILE`]: undefined };
    expect(linesOf(faultOf(role, { ...without, [name]: "x" }))).toContain(
      `${name}: is not a setting: did you mean ${meant}?`,
    );
    const given = meant === "MAIL_FROM" ? { MAIL_FROM: "a@b.example" } : {};
    expect(faultOf(role, { ...given, [name]: "x" })).toBe("");
  });

  test("a setting counts as set if it comes from a file", () => {
    writeFileSync(join(folder, "smtp"), "smtp://mail");
    const fromFile = { SMTP_URL: undefined, SMTP_URL_FILE: join(folder, "smtp") };
    expect(faultOf("api", { ...fromFile, SMTP_URI: "x" })).toBe("");
  });

  test.each([
    ["api", "SFTP_URL", "SMTP_URL"],
    ["api", "SMPP_URL", "SMTP_URL"],
    ["operator", "APP_URL", "API_URL"],
    ["api", "PORTS", "PORT"],
    ["api", "POST", "PORT"],
    ["api", "HOSTS", "HOST"],
    ["api", "COST", "HOST"],
    ["worker", "EVENT", "EVENTS"],
  ])("the role %s ignores %s, also without %s", (role, name, resembled) => {
    const faults = linesOf(faultOf(role, { [resembled]: undefined, [name]: "x" }));
    expect(faults.filter((line) => line.startsWith(`${name}:`))).toEqual([]);
  });

  test("a name is reported if it names a file for a setting that cannot come from a file", () => {
    expect(faultOf("api", { BASE_URL_FILE: "/x" })).toContain(
      "BASE_URL_FILE: is not a setting: BASE_URL cannot come from a file, so set BASE_URL itself",
    );
    expect(faultOf("worker", { DEPUTIZE_ANYTHING: "x" })).toContain(
      "DEPUTIZE_ANYTHING: is not a setting: remove it",
    );
  });

  /** Variables of shells, npm, Kubernetes, HashiCorp Vault, Kafka, and settings of other roles. */
  const OTHERS: Environment = {
    ...{ PATH: "/bin", HOME: "/root", HOSTNAME: "pod-1", PWD: "/", LANG: "C", TERM: "xterm", SHLVL: "1" },
    ...{ NODE_OPTIONS: "", npm_config_loglevel: "info", INIT_CWD: "/", HTTP_PROXY: "x", no_proxy: "x" },
    ...{ KUBERNETES_PORT: "tcp://10.0.0.1:443", KUBERNETES_SERVICE_HOST: "10.0.0.1" },
    ...{ VAULT_ADDR: "x", VAULT_TOKEN: "x", VAULT_CACERT: "x", KAFKA_HOME: "x", KAFKA_OPTS: "x" },
    ...{ HTTP_URL: "x", POSTGRES_URL: "x", PGHOST: "x", host: "x", port: "x", POD_NAMESPACE: "x" },
    ...{ DATABASE_URL: "postgres://localhost/none", MANIFESTS_DIRECTORY: "x", EVENTS: "embedded" },
  };
  /** Variables that Kubernetes sets for Services with these names. */
  const links = ["DEPUTIZE_API", "DEPUTIZE_KEYVAULT", "KEYVAULT", "HEALTH2", "OPERATOR_API", "SMTP"].flatMap(
    (name) => [
      [`${name}_SERVICE_HOST`, "10.0.0.1"],
      [`${name}_SERVICE_PORT`, "8080"],
      [`${name}_SERVICE_PORT_HTTPS_HEALTH`, "8080"],
      ...(name === "KEYVAULT" ? [] : [[`${name}_PORT`, "tcp://10.0.0.1:8080"]]),
      [`${name}_PORT_8080_TCP`, "tcp://10.0.0.1:8080"],
      [`${name}_PORT_8080_TCP_PROTO`, "tcp"],
      [`${name}_PORT_8080_TCP_PORT`, "8080"],
      [`${name}_PORT_8080_TCP_ADDR`, "10.0.0.1"],
    ],
  );

  test.each(Object.keys(roles))("the role %s ignores the names of other programs", (role) => {
    expect(faultOf(role, { ...OTHERS, ...Object.fromEntries(links) })).toBe("");
  });

  test("a role ignores an empty variable, and the settings of other roles", () => {
    expect(faultOf("api", { SMPT_URL: "" })).toBe("");
    expect(faultOf("operator", { SMTP_URL: "smtp://m", SEND_CODE_PER_IP: "5" })).toBe("");
    expect(faultOf("worker", { OPERATOR_TOKEN_FILE: "/none", PORT: "80" })).toBe("");
    expect(
      faultOf("vault", { KEYVAULT_HSM_SLOT: "1", KEYVAULT_TOKEN_ENVIRONMENT: "KEYVAULT_HSM_SLOT" }),
    ).toBe("");
  });
});

test.each([
  ["api", "OPERATOR_PORT"],
  ["worker", "HEALTH_PORT"],
  ["vault", "KEYVAULT_PORT"],
])("the role %s names Kubernetes if a Service's variable hides the setting %s", (role, name) => {
  expect(faultOf(role, { [name]: "tcp://10.0.0.1:8443" })).toContain(
    `${name}: must be a port, but Kubernetes set it for a Service of this name: set enableServiceLinks: false`,
  );
});
