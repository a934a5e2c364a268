import { appendFile, copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ask } from "../../../keyvault/commands/ask_vault.ts";
import { installTls } from "../../../keyvault/tls/issue.ts";
import { startVault, type TestVault } from "../fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

let vault: TestVault;
let next: string;

beforeAll(async () => {
  vault = await startVault();
  next = await mkdtemp(join(tmpdir(), "keyvault-next-"));
  await installTls(next, ["localhost"], new Date());
});
afterAll(async () => {
  await vault.close();
  await rm(next, { recursive: true });
});

const status = (identity: string) =>
  ask({ url: vault.url, ca: join(vault.home.config.tlsDir, "ca.pem"), cert: identity }, "/v1/status");

test("PEM files end their last line, so that one can be appended to another", async () => {
  for (const name of ["ca", "server", "api", "admin"]) {
    for (const end of ["pem", "key"]) {
      expect(await readFile(join(next, `${name}.${end}`), "utf8")).toMatch(/-----END [A-Z ]+-----\n$/);
    }
  }
});

test.each(["", "\n"])(
  "the authority is exchanged by appending the next one, after a line that ends in %j",
  async (end) => {
    const { tlsDir, tls } = vault.home.config;
    const old = await readFile(tls.caFile, "utf8");
    const server = [await readFile(tls.certFile), await readFile(tls.keyFile)] as const;
    const admin = join(tlsDir, "admin.pem");
    await writeFile(tls.caFile, old.trimEnd() + end);
    await appendFile(tls.caFile, await readFile(join(next, "ca.pem")));
    await copyFile(join(next, "server.key"), tls.keyFile);
    await copyFile(join(next, "server.pem"), tls.certFile);
    await vault.trust.refresh();
    await status(admin);
    await status(join(next, "admin.pem"));
    await copyFile(join(next, "ca.pem"), tls.caFile);
    await vault.trust.refresh();
    await status(join(next, "admin.pem"));
    await expect(status(admin)).rejects.toThrow(/may refuse .*admin\.pem/);
    await writeFile(tls.caFile, old);
    await writeFile(tls.keyFile, server[1]);
    await writeFile(tls.certFile, server[0]);
    await vault.trust.refresh();
    await status(admin);
  },
);
