import { X509Certificate } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { Subject } from "../../../keyvault/tls/authority.ts";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";
import { type CertificatePlan, ensureCertificates } from "../../../keyvault/tls/ensure_secrets.ts";
import { openSecrets, type Secrets } from "../../../keyvault/tls/kubernetes_secrets.ts";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { cli } from "../command_line.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 900_000 });

const NAMESPACE = "vaults";
const PATH = `/api/v1/namespaces/${NAMESPACE}/secrets`;
const TOKEN = "token-of-the-job";
const NOW = new Date();
const DAY = 86_400_000;
const [AUTHORITY, SERVER, API] = ["vault-authority", "vault-tls", "vault-api-tls"];
const API_SUBJECT: Subject = { kind: "client", role: "api", name: "api" };
const NAMES = ["vault", "vault.vaults.svc", "10.0.0.7"];
const PLAN: CertificatePlan = {
  authority: AUTHORITY,
  ends: [
    { secret: SERVER, subject: { kind: "server", names: NAMES } },
    { secret: API, subject: API_SUBJECT },
  ],
  labels: { "app.kubernetes.io/name": "deputize" },
  days: 90,
  renewDays: 30,
};

let cluster: Kubernetes;
let folder: string;
let secrets: Secrets;

beforeAll(async () => {
  const binary = await kubernetesBinary();
  if ("missing" in binary) throw new Error(`No API server: ${binary.missing}`);
  cluster = await startKubernetes(binary.path, { [TOKEN]: { name: "job" } });
  await cluster.call("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${NAMESPACE}`;
  const verbs = ["get", "create", "patch"];
  const rules = [{ apiGroups: [""], resources: ["secrets"], verbs, resourceNames: [AUTHORITY, SERVER, API] }];
  await cluster.call("POST", `${rbac}/roles`, { metadata: { name: "job" }, rules });
  await cluster.call("POST", `${rbac}/rolebindings`, {
    metadata: { name: "job" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "job" },
    subjects: [{ kind: "User", name: "job" }],
  });
  folder = await mkdtemp(join(tmpdir(), "account-"));
  const account = { "ca.crt": cluster.ca, token: `${TOKEN}\n`, namespace: NAMESPACE };
  for (const [name, text] of Object.entries(account)) await writeFile(join(folder, name), text);
  secrets = await openSecrets(cluster.url, folder);
});
afterAll(async () => {
  await secrets?.close();
  await cluster?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});
beforeEach(async () => {
  for (const name of PLAN.ends.map(({ secret }) => secret)) await cluster.call("DELETE", `${PATH}/${name}`);
});

type Stored = {
  type: string;
  immutable: boolean;
  metadata: { labels: object };
  data: Record<string, string>;
};
const stored = async (name: string) =>
  (await cluster.call("GET", `${PATH}/${name}`)).body as unknown as Stored;
const fileOf = async (name: string, file: string) =>
  Buffer.from((await stored(name)).data[file] ?? "", "base64").toString();
const certificateOf = async (name: string) => new X509Certificate(await fileOf(name, "tls.crt"));
const doneBy = async (plan: CertificatePlan = PLAN, now = NOW) =>
  (await ensureCertificates(secrets, plan, now)).map(({ secret, done }) => [secret, done]);
const put = (name: string, files: Record<string, string>) =>
  cluster.call("POST", PATH, { metadata: { name }, stringData: files });

test("ensureCertificates creates authority and certificates with rights to their Secrets only, and changes nothing in a second run", async () => {
  expect(await doneBy()).toEqual([
    [AUTHORITY, "made"],
    [SERVER, "made"],
    [API, "made"],
  ]);
  const authority = new X509Certificate(await fileOf(AUTHORITY, "ca.pem"));
  for (const { secret } of PLAN.ends) {
    expect(await stored(secret)).toMatchObject({
      type: "kubernetes.io/tls",
      metadata: { labels: PLAN.labels },
    });
    expect((await certificateOf(secret)).verify(authority.publicKey)).toBe(true);
    expect(await fileOf(secret, "ca.crt")).toBe(await fileOf(AUTHORITY, "ca.pem"));
    expect(Object.keys((await stored(secret)).data).sort()).toEqual(["ca.crt", "tls.crt", "tls.key"]);
  }
  expect((await certificateOf(API)).subjectAltName).toBe("URI:deputize://role/api/api");
  expect((await certificateOf(SERVER)).subjectAltName).toContain("DNS:vault.vaults.svc");
  expect((await stored(AUTHORITY)).immutable).toBe(true);
  const before = await Promise.all([AUTHORITY, SERVER, API].map(stored));
  expect((await doneBy()).map(([, done]) => done)).toEqual(["kept", "kept", "kept"]);
  expect(await Promise.all([AUTHORITY, SERVER, API].map(stored))).toEqual(before);
});

test("the Job's account can neither read or write other Secrets, nor list or delete the Job's own Secrets", async () => {
  const other = { name: "other", type: "Opaque", immutable: false, labels: {}, files: {} } as const;
  await expect(secrets.read("other")).rejects.toThrow(/refuses the Secret other \(403\)/);
  await expect(secrets.apply(other)).rejects.toThrow(/\(403\)/);
  const job = cluster.withToken(TOKEN);
  expect((await job("GET", PATH)).status).toBe(403);
  expect((await job("DELETE", `${PATH}/${API}`)).status).toBe(403);
});

test("ensureCertificates renews a certificate before it expires, but not a day too early", async () => {
  await doneBy();
  const at = (days: number) => new Date(NOW.getTime() + days * DAY);
  const first = (await certificateOf(API)).serialNumber;
  expect((await doneBy(PLAN, at(59))).map(([, done]) => done)).toEqual(["kept", "kept", "kept"]);
  expect((await doneBy(PLAN, at(60.01))).map(([, done]) => done)).toEqual(["kept", "renewed", "renewed"]);
  expect((await certificateOf(API)).serialNumber).not.toBe(first);
});

test("ensureCertificates renews a certificate whose names, key or authority have changed", async () => {
  await doneBy();
  const more = { secret: SERVER, subject: { kind: "server", names: [...NAMES, "other"] } } as const;
  const ends = [more, ...PLAN.ends.slice(1)];
  expect((await doneBy({ ...PLAN, ends })).slice(1)).toEqual([
    [SERVER, "renewed"],
    [API, "kept"],
  ]);
  expect((await certificateOf(SERVER)).subjectAltName).toContain("DNS:other");
  for (const file of ["tls.key", "ca.crt"]) {
    const patch = { stringData: { [file]: await fileOf(SERVER, file === "ca.crt" ? "tls.crt" : file) } };
    await cluster.call("PATCH", `${PATH}/${API}`, patch, "application/merge-patch+json");
    expect((await doneBy({ ...PLAN, ends })).at(-1), file).toEqual([API, "renewed"]);
    expect((await doneBy({ ...PLAN, ends })).at(-1), file).toEqual([API, "kept"]);
  }
});

test("ensureCertificates refuses a Secret with other content and does not change it", async () => {
  const validity = { notBefore: new Date(NOW.getTime() - DAY), notAfter: new Date(NOW.getTime() + 90 * DAY) };
  const other = await createAuthority(validity);
  const foreign = await issueCertificate(other, API_SUBJECT, validity);
  for (const files of [
    { "tls.crt": foreign.certificate, "tls.key": foreign.privateKey, "ca.crt": other.certificate },
    { password: "of somebody else" },
  ]) {
    await put(API, files);
    const before = await stored(API);
    await expect(doneBy()).rejects.toThrow(/vault-api-tls holds no certificate of this authority/);
    expect(await stored(API)).toEqual(before);
    await cluster.call("DELETE", `${PATH}/${API}`);
  }
});

test("two concurrent runs of ensureCertificates use the same authority", async () => {
  await cluster.call("DELETE", `${PATH}/${AUTHORITY}`);
  const both = await Promise.all([doneBy(), doneBy()]);
  expect(both.map(([first]) => first?.[1]).sort()).toEqual(["kept", "made"]);
  const authority = new X509Certificate(await fileOf(AUTHORITY, "ca.pem"));
  for (const { secret } of PLAN.ends) {
    expect((await certificateOf(secret)).verify(authority.publicKey)).toBe(true);
  }
  expect((await doneBy()).map(([, done]) => done)).toEqual(["kept", "kept", "kept"]);
});

test("when an authority is replaced through its Secret, ca.crt contains both authorities, and the new authority issues all certificates", async () => {
  await doneBy();
  const former = await fileOf(AUTHORITY, "ca.pem");
  const next = await createAuthority({ notBefore: NOW, notAfter: new Date(NOW.getTime() + 900 * DAY) });
  await cluster.call("DELETE", `${PATH}/${AUTHORITY}`);
  await put(AUTHORITY, { "ca.pem": next.certificate + former, "ca.key": next.privateKey });
  expect((await doneBy()).map(([, done]) => done)).toEqual(["kept", "renewed", "renewed"]);
  expect(await fileOf(API, "ca.crt")).toBe(next.certificate + former);
  expect((await certificateOf(API)).verify(new X509Certificate(next.certificate).publicKey)).toBe(true);
  await cluster.call("DELETE", `${PATH}/${AUTHORITY}`);
});

test("keyvault cert secrets creates the Secrets, prints no key, and reports errors in one line", async () => {
  const wanted = ["--authority", AUTHORITY, "--server", SERVER, "--server-name", "vault"];
  const there = ["--kubernetes", cluster.url, "--account", folder];
  const run = (...args: string[]) => cli({ environment: {} }, "cert", "secrets", ...args);
  const { stdout } = await run(
    ...wanted,
    "--client",
    `api/api=${API}`,
    "--label",
    "a/b=c",
    "--json",
    ...there,
  );
  const lines = stdout.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { secret: AUTHORITY, done: "made" },
    { secret: SERVER, done: "made" },
    { secret: API, done: "made", not_after: expect.any(String) },
  ]);
  expect(stdout).not.toMatch(/PRIVATE|BEGIN/);
  expect((await stored(API)).metadata.labels).toEqual({ "a/b": "c" });
  const wrong: [string[], RegExp, status?: number][] = [
    [[...wanted, "--client", "root/api=x"], /Give <role>\/<name>=<secret>/, 2],
    [[...wanted, "--client", `backup/one=other`, ...there], /refuses the Secret other \(403\)/],
    [[...wanted, "--days", "30", ...there], /--renew-days must be fewer/, 2],
    [[...wanted, "--kubernetes", "https://127.0.0.1:1", "--account", folder], /does not answer/],
    [[...wanted, "--account", join(folder, "none")], /cannot be read: run this command in a pod/],
  ];
  for (const [args, message, code = 1] of wrong) {
    await expect(run(...args), args.join(" ")).rejects.toMatchObject({
      code,
      stderr: expect.stringMatching(message),
    });
  }
});
