import { type ChildProcess, spawn } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../src/dev/process/ports.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { codeBlocks } from "../support/markdown.ts";
import { addMember } from "../support/members.ts";
import { npmPackages, pythonPackages } from "../support/outside_tools.ts";
import { until } from "../support/process.ts";
import { connectScene, type Product } from "./scene.ts";

const ROOT = join(import.meta.dirname, "../..");
const EXAMPLES = join(ROOT, "docs/examples/connect");
const node = await npmPackages("openid-client-1", ["openid-client@6.9.0"]);
const python = await pythonPackages("connect-product-2", [
  "authlib==1.9.10",
  "fastapi==0.165.0",
  "httpx2==2.16.2",
  "itsdangerous==2.2.0",
  "uvicorn==0.54.0",
]);
const missing = node.missing ?? python.missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

test("the page about connecting shows the products that this test runs", async () => {
  const shown = (await codeBlocks("docs/connect.md")).map(({ code }) => code);
  for (const name of ["shop.mjs", "shop.py"]) {
    expect(shown).toContain(await readFile(join(EXAMPLES, name), "utf8"));
  }
});

describe.skipIf(missing !== undefined).each([
  { library: "openid-client", command: [process.execPath, "shop.mjs"] },
  { library: "Authlib", command: ["python3", "-m", "uvicorn", "shop:app", "--port"] },
])("a product with the unmodified library $library", { timeout: 60_000 }, ({ command }) => {
  let api: TestApi;
  let folder: string;
  let product: Product;
  let shop: ChildProcess;
  let origin: string;
  let customer: Person;

  beforeAll(async () => {
    const port = await freePort();
    const baseUrl = `http://127.0.0.1:${port}`;
    api = await startApi({ config: { BASE_URL: baseUrl, PORT: port } });
    const shopPort = String(await freePort());
    origin = `http://127.0.0.1:${shopPort}`;
    const redirect = `${origin}/connected`;
    product = await connectScene(api).product({ isDraft: true, redirect });
    customer = await api.person();
    await addMember(api, product.owner.accountId, "auditor", customer);
    folder = await projectOf();
    const [program = "", ...given] = command;
    const args = program === "python3" ? [...given, shopPort] : given;
    const env = {
      ...{
        PATH: process.env.PATH,
        PYTHONPATH: python.folder,
        PORT: shopPort,
        SESSION_SECRET: "s".repeat(32),
      },
      ...{ BASE_URL: baseUrl, PLATFORM_ID: product.platformId, SIGNING_SECRET: product.secret },
    };
    shop = spawn(program, args, { cwd: folder, env, stdio: ["ignore", "ignore", "inherit"] });
    await until(
      "the product listens",
      () =>
        fetch(origin).then(
          () => true,
          () => false,
        ),
      30_000,
    );
  });
  afterAll(async () => {
    shop?.kill();
    await api?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Starts at the product, and returns its cookie and the signed request. */
  async function begun() {
    const first = await fetch(`${origin}/connect`, { redirect: "manual" });
    const cookie = first.headers
      .getSetCookie()
      .map((each) => each.split(";")[0])
      .join("; ");
    const page = await fetch(first.headers.get("location") ?? "", { redirect: "manual" });
    return {
      cookie,
      path: `/v1/service/connect-requests/${page.headers.get("location")?.split("/connect/")[1]}`,
    };
  }
  const decide = async (path: string, decision: "approve" | "decline") => {
    const { consent_hash, declines_to } = (await customer.client.get(path)).body;
    if (decision === "decline") return String(declines_to);
    const body = { scopes: ["data:read"], consent_hash };
    return String((await customer.client.post(`${path}/approve`, body)).body.redirect_to);
  };
  const back = async (address: string, cookie: string) => {
    const answer = await fetch(address, { headers: { cookie } });
    return [answer.status, await answer.text()];
  };

  test("gets a connection with the scopes that the customer left", async () => {
    const { cookie, path } = await begun();
    const address = await decide(path, "approve");
    expect(await back(address, cookie)).toEqual([200, "Connected Ada Lovelace with data:read"]);
    const [connection] = await connectScene(api).customers(product);
    expect(connection).toMatchObject({
      customer_account_id: customer.accountId,
      allowed_scopes: ["data:read"],
    });
  });

  test("connects nobody when the customer declines, or when another browser returns", async () => {
    const declined = await begun();
    expect(await back(await decide(declined.path, "decline"), declined.cookie)).toEqual([
      400,
      "Not connected: access_denied",
    ]);
    const [mallory, victim] = [await begun(), await begun()];
    const address = await decide(mallory.path, "approve");
    expect((await back(address, victim.cookie))[0]).toBe(400);
    expect((await back(address, ""))[0]).toBe(400);
  });

  async function projectOf(): Promise<string> {
    const project = await mkdtemp(join(tmpdir(), "deputize-product-"));
    const modules = join(project, "node_modules");
    await mkdir(modules);
    await symlink(join(ROOT, "node_modules/express"), join(modules, "express"));
    const theirs = join(`${node.folder}`, "node_modules");
    for (const name of (await readdir(theirs)).filter((each) => !each.startsWith("."))) {
      await symlink(join(theirs, name), join(modules, name));
    }
    for (const name of ["shop.mjs", "shop.py"]) await copyFile(join(EXAMPLES, name), join(project, name));
    return project;
  }
});
