import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { stringify } from "yaml";
import { StartError } from "../../src/config.ts";
import { openAccess } from "../../src/kubernetes/access.ts";
import { steeredClock } from "../support/clock.ts";

describe("access to a cluster", () => {
  const clock = steeredClock();
  let folder: string;
  let file: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-access-"));
    file = join(folder, "config");
  });

  afterEach(async () => {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true });
  });

  /** Writes a kubeconfig with this user and cluster, and with a second context. */
  const write = (user: object, cluster: object = {}) =>
    writeFile(
      file,
      stringify({
        apiVersion: "v1",
        kind: "Config",
        "current-context": "here",
        clusters: [
          { name: "one", cluster: { server: "https://one.test:6443/base/", ...cluster } },
          { name: "two", cluster: { server: "https://two.test" } },
        ],
        users: [{ name: "me", user }],
        contexts: [
          { name: "here", context: { cluster: "one", user: "me", namespace: "team" } },
          { name: "there", context: { cluster: "two", user: "me" } },
        ],
      }),
    );

  test("reads server, namespace and token of the current context", async () => {
    await write({ token: "first" });
    const access = await openAccess({ file, clock });
    expect(access).toMatchObject({ server: "https://one.test:6443/base", namespace: "team" });
    expect(await access.credentials()).toEqual({ headers: { authorization: "Bearer first" }, tls: {} });
  });

  test("reads the context that the options name", async () => {
    await write({ token: "first" });
    const access = await openAccess({ file, context: "there", clock });
    expect(access).toMatchObject({ server: "https://two.test", namespace: undefined });
  });

  test("reads the certificates and the server name to expect", async () => {
    const base64 = (text: string) => Buffer.from(text).toString("base64");
    await write(
      { "client-certificate-data": base64("cert"), "client-key-data": base64("key") },
      { "certificate-authority-data": base64("ca"), "tls-server-name": "other.test" },
    );
    const { tls } = await (await openAccess({ file, clock })).credentials();
    expect(tls).toEqual({
      ca: Buffer.from("ca"),
      cert: Buffer.from("cert"),
      key: Buffer.from("key"),
      servername: "other.test",
    });
  });

  test("reads the proxy URL", async () => {
    await write({ token: "first" }, { "proxy-url": "http://me:secret@proxy.test:3128" });
    const access = await openAccess({ file, clock });
    expect(access.proxyUrl).toBe("http://me:secret@proxy.test:3128");
  });

  test("sends the user's name and password", async () => {
    await write({ username: "me", password: "pass" });
    const { headers } = await (await openAccess({ file, clock })).credentials();
    expect(headers).toEqual({ authorization: "Basic bWU6cGFzcw==" });
  });

  test("reads the files again after a minute, not earlier, and immediately after a refusal", async () => {
    await write({ token: "first" });
    const access = await openAccess({ file, clock });
    const token = async () => (await access.credentials()).headers.authorization;
    expect(await token()).toBe("Bearer first");
    await write({ token: "second" });
    clock.advance(59.9);
    expect(await token()).toBe("Bearer first");
    clock.advance(0.1);
    expect(await token()).toBe("Bearer second");
    await write({ token: "third" });
    access.forget();
    expect(await token()).toBe("Bearer third");
  });

  test("keeps the credentials while their file is missing, and reads the file when it is back", async () => {
    await write({ token: "first" });
    const access = await openAccess({ file, clock });
    await access.credentials();
    await rm(file);
    clock.advance(61);
    expect((await access.credentials()).headers.authorization).toBe("Bearer first");
    await write({ token: "second" });
    expect((await access.credentials()).headers.authorization).toBe("Bearer second");
  });

  test("runs a credentials plugin once, and again after a refusal", async () => {
    const runs = join(folder, "runs");
    const plugin = join(folder, "plugin.sh");
    const answer = '{"kind":"ExecCredential","status":{"token":"of-plugin"}}';
    await writeFile(plugin, `#!/bin/sh\necho run >>${runs}\necho '${answer}'\n`);
    await chmod(plugin, 0o755);
    await write({ exec: { apiVersion: "client.authentication.k8s.io/v1", command: plugin } });
    const access = await openAccess({ file, clock });
    const count = async () => (await readFile(runs, "utf8")).split("\n").length - 1;
    expect((await access.credentials()).headers.authorization).toBe("Bearer of-plugin");
    clock.advance(61);
    await access.credentials();
    expect(await count()).toBe(1);
    access.forget();
    await Promise.all([access.credentials(), access.credentials()]);
    expect(await count()).toBe(2);
    await access.credentials();
    expect(await count()).toBe(2);
  });

  test("reads the service account of a pod", async () => {
    vi.stubEnv("KUBERNETES_SERVICE_HOST", "fd00::1");
    vi.stubEnv("KUBERNETES_SERVICE_PORT", "443");
    const account = join(folder, "var/run/secrets/kubernetes.io/serviceaccount");
    await mkdir(account, { recursive: true });
    await writeFile(join(account, "ca.crt"), "ca");
    await writeFile(join(account, "token"), "first\n");
    await writeFile(join(account, "namespace"), "deputize");
    const access = await openAccess({ podRoot: folder, clock });
    expect(access).toMatchObject({ server: "https://[fd00::1]:443", namespace: "deputize" });
    const credentials = { headers: { authorization: "Bearer first" }, tls: { ca: Buffer.from("ca") } };
    expect(await access.credentials()).toEqual(credentials);
    await writeFile(join(account, "token"), "second\n");
    clock.advance(60);
    expect((await access.credentials()).headers.authorization).toBe("Bearer second");
  });

  test("stops the startup with a reason if no cluster is found", async () => {
    const refusal = async (context?: string) =>
      openAccess({ file, context, clock }).then(
        () => "none",
        (error) => (error instanceof StartError ? error.message : String(error)),
      );
    expect(await refusal()).toContain("cannot be read");
    await write({ token: "first" });
    expect(await refusal("nowhere")).toContain('no context "nowhere"');
    await write({ token: "first" }, { server: "http://one.test" });
    expect(await refusal()).toContain("not an https URL");
    await write({ token: "first" }, { "proxy-url": "socks5://me:secret@proxy.test" });
    expect(await refusal()).toBe(`The kubeconfig ${file} has a proxy-url that is not an http or https URL.`);
    vi.stubEnv("KUBERNETES_SERVICE_HOST", undefined);
    await expect(openAccess({ clock })).rejects.toThrow("There is no cluster");
    vi.stubEnv("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    vi.stubEnv("KUBERNETES_SERVICE_PORT", "443");
    await expect(openAccess({ context: "nowhere", clock })).rejects.toThrow(
      'The pod\'s service account has no context "nowhere"',
    );
  });
});
