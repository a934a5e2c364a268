import type { ChildProcess } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { spawnTied } from "../../../src/dev/process/lifeline.mjs";
import { freePort } from "../../../src/dev/process/ports.ts";
import { callsOf } from "./calls.ts";

/** The body of a refusal is a `Status` object. */
export type KubernetesAnswer = { status: number; body: KubernetesObject };
export type KubernetesObject = { [field: string]: unknown };

/** A user of the cluster. Every user is also a member of the group `system:authenticated`. */
export type KubernetesUser = { name: string; group?: string; uid?: string };

/** A running API server with real RBAC and admission. Neither a scheduler nor a controller runs. */
export type Kubernetes = {
  url: string;
  ca: string;
  /** Token of a user in the group `system:masters`. */
  adminToken: string;
  /** Calls the server as administrator. `contentType` defaults to JSON. */
  call(method: string, path: string, body?: unknown, contentType?: string): Promise<KubernetesAnswer>;
  as(user: KubernetesUser): Kubernetes["call"];
  /** Returns a function that makes calls with another token, and optionally impersonates a user. */
  withToken(token: string, as?: KubernetesUser): Kubernetes["call"];
  /** Returns audit log entries about writes to our objects, whether they succeeded or failed. */
  audited(): Promise<KubernetesObject[]>;
  stop(): Promise<void>;
};

/** The part of an API server that the operator's tests need. */
export type KubernetesCalls = Pick<Kubernetes, "url" | "ca" | "adminToken" | "call">;

export type KubernetesTokens = Record<string, KubernetesUser>;

/** Audits writes of our kinds, with the user and the policies' annotations. */
const AUDIT_POLICY = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  omitStages: ["RequestReceived"],
  rules: [
    {
      level: "Metadata",
      verbs: ["create", "update", "patch", "delete"],
      resources: [{ group: "deputize.io" }],
    },
    { level: "None" },
  ],
};

const PROGRAMS = ["etcd", "kube-apiserver"];

/** On a busy machine a start can fail, for example because etcd answers the API server too late. */
const STARTS = 3;

/** Starts etcd and the API server on free loopback ports. Both stop when this process exits. */
export async function startKubernetes(binary: string, tokens: KubernetesTokens = {}): Promise<Kubernetes> {
  for (let start = 1; ; start += 1) {
    try {
      return await startOnce(binary, tokens);
    } catch (error) {
      if (start === STARTS) throw error;
      console.error(`Starting Kubernetes again: ${(error as Error).message}`);
    }
  }
}

async function startOnce(binary: string, tokens: KubernetesTokens): Promise<Kubernetes> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-kubernetes-"));
  const children: ChildProcess[] = [];
  const stop = async (): Promise<void> => {
    for (const child of children.reverse()) await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  const start = async (program: string, flags: string[]): Promise<ChildProcess> => {
    const log = await open(join(folder, `${program}.log`), "w");
    const child = spawnTied(binary, [program, ...flags], {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder },
      stdio: ["ignore", log.fd, log.fd],
    });
    children.push(child);
    await log.close();
    return child;
  };
  try {
    return { ...(await startBoth(folder, start, tokens)), stop };
  } catch (error) {
    const logs = await lastLines(folder);
    await stop();
    throw new Error(`${(error as Error).message}\n${logs}`, { cause: error });
  }
}

/** Returns the end of each program's log. */
async function lastLines(folder: string): Promise<string> {
  const ends = PROGRAMS.map(async (program) => {
    const log = await readFile(join(folder, `${program}.log`), "utf8").catch(() => "no log");
    return log.trimEnd().split("\n").slice(-3).join("\n");
  });
  return (await Promise.all(ends)).join("\n");
}

type StartProgram = (program: string, flags: string[]) => Promise<ChildProcess>;

async function startBoth(
  folder: string,
  start: StartProgram,
  tokens: KubernetesTokens,
): Promise<Omit<Kubernetes, "stop">> {
  const [etcdPort, peerPort, port] = await Promise.all([freePort(), freePort(), freePort()]);
  const etcd = `http://127.0.0.1:${etcdPort}`;
  await start("etcd", [
    `--data-dir=${join(folder, "etcd")}`,
    `--listen-client-urls=${etcd}`,
    `--advertise-client-urls=${etcd}`,
    `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
    "--unsafe-no-fsync",
  ]);
  const adminToken = randomBytes(16).toString("hex");
  const users = { ...tokens, [adminToken]: { name: "admin", uid: "admin", group: "system:masters" } };
  await writeFile(join(folder, "tokens.csv"), Object.entries(users).map(tokenLine).join(""));
  await writeFile(join(folder, "audit.yaml"), JSON.stringify(AUDIT_POLICY));
  await writeServiceAccountKeys(folder);
  const server = await start("kube-apiserver", [
    `--etcd-servers=${etcd}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${port}`,
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    `--cert-dir=${join(folder, "certificates")}`,
    `--service-account-key-file=${join(folder, "accounts.pub")}`,
    `--service-account-signing-key-file=${join(folder, "accounts.key")}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    "--api-audiences=https://kubernetes.default.svc,deputize-api",
    "--service-cluster-ip-range=10.96.0.0/16",
    "--authorization-mode=RBAC",
    `--token-auth-file=${join(folder, "tokens.csv")}`,
    `--audit-policy-file=${join(folder, "audit.yaml")}`,
    `--audit-log-path=${join(folder, "audit.log")}`,
    "--disable-admission-plugins=ServiceAccount",
  ]);
  const url = `https://127.0.0.1:${port}`;
  const ca = await whenReady(url, join(folder, "certificates", "apiserver.crt"), adminToken, server);
  return {
    url,
    ca,
    adminToken,
    ...callsOf({ url, ca, adminToken }),
    async audited() {
      const lines = (await readFile(join(folder, "audit.log"), "utf8")).trim().split("\n");
      return lines.map((line) => JSON.parse(line) as KubernetesObject);
    },
  };
}

function tokenLine([token, { name, uid = name, group }]: [string, KubernetesUser]): string {
  return `${token},${name},${uid}${group === undefined ? "" : `,${group}`}\n`;
}

async function writeServiceAccountKeys(folder: string): Promise<void> {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  await writeFile(join(folder, "accounts.key"), privateKey.export({ type: "pkcs1", format: "pem" }));
  await writeFile(join(folder, "accounts.pub"), publicKey.export({ type: "spki", format: "pem" }));
}

async function whenReady(
  url: string,
  certificate: string,
  token: string,
  server: ChildProcess,
): Promise<string> {
  for (let tries = 0; tries < 600; tries += 1) {
    const ca = await readFile(certificate, "utf8").catch(() => undefined);
    if (ca !== undefined && (await isReady(url, ca, token))) return ca;
    if (hasEnded(server)) throw new Error("the Kubernetes API server ended while it started");
    await sleep(100);
  }
  throw new Error("the Kubernetes API server did not become ready within a minute");
}

async function isReady(url: string, ca: string, token: string): Promise<boolean> {
  const dispatcher = new Agent({ connect: { ca } });
  try {
    const answer = await request(new URL("/readyz", url), {
      dispatcher,
      headers: { authorization: `Bearer ${token}` },
    });
    await answer.body.dump();
    return answer.statusCode === 200;
  } catch {
    return false;
  } finally {
    await dispatcher.close();
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await exit;
  clearTimeout(timer);
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
