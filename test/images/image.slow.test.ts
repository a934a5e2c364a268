import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { IMAGES_FOLDER } from "../../src/dev/images/buildah.ts";
import { freePort } from "../../src/dev/process/ports.ts";
import { NODE_HASHES, NODE_PACKAGE } from "../../src/dev/setup/node.mjs";
import { buildAndUnpack, CA_MARKER, type UnpackedImage } from "./support/built_images.ts";
import { type Container, type ContainerOptions, runContainer, startContainer } from "./support/container.ts";

const ROOT = join(import.meta.dirname, "../..");
const BUILD_MS = 30 * 60_000;
const LARGEST = 250e6;
const NAMES = ["deputize", "deputize-keyvault", "deputize-postgres"] as const;

let folder: string;
let images: Record<string, UnpackedImage>;
let commit: string;

beforeAll(async () => {
  if (process.getuid?.() !== 0) throw new Error("Run as root: the images' programs are started by chroot");
  // The folder for temporary files may be in memory and then too small for images.
  await mkdir(IMAGES_FOLDER, { recursive: true });
  folder = await mkdtemp(join(IMAGES_FOLDER, "test-"));
  commit = execFileSync("git", ["rev-parse", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim();
  images = await buildAndUnpack(folder);
}, BUILD_MS);
afterAll(() => rm(folder, { recursive: true, force: true }));

const image = (name: string): UnpackedImage => images[name] as UnpackedImage;

type Entry = { path: string; mode: number; owner: string; isFile: boolean; isLink: boolean };

async function entriesOf(name: string): Promise<Entry[]> {
  const { root } = image(name);
  const paths = (await readdir(root, { recursive: true })).filter((path) => path !== "data");
  return Promise.all(
    paths.map(async (path) => {
      const stats = await lstat(join(root, path));
      const [isFile, isLink] = [stats.isFile(), stats.isSymbolicLink()];
      return { path, mode: stats.mode & 0o7777, owner: `${stats.uid}:${stats.gid}`, isFile, isLink };
    }),
  );
}

/** Returns `name@version` of each package in a folder's node_modules, including nested ones. */
async function installedIn(folder: string): Promise<string[]> {
  const modules = join(folder, "node_modules");
  if (!existsSync(modules)) return [];
  const found: string[] = [];
  for (const entry of await readdir(modules)) {
    const names = entry.startsWith("@") ? await readdir(join(modules, entry)) : [""];
    for (const place of names.map((name) => join(modules, entry, name))) {
      if (!existsSync(join(place, "package.json"))) continue;
      const { name, version } = JSON.parse(await readFile(join(place, "package.json"), "utf8"));
      found.push(`${name}@${version}`, ...(await installedIn(place)));
    }
  }
  return found;
}

async function packagesOf(name: string): Promise<string[]> {
  const app = join(image(name).root, "app");
  const found = await Promise.all([app, join(app, "src"), join(app, "keyvault")].map(installedIn));
  return [...new Set(found.flat())].sort();
}

const names = (packages: readonly string[]) => packages.map((each) => each.slice(0, each.lastIndexOf("@")));
const development = (): string[] => {
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  return Object.keys(devDependencies);
};

describe.each(NAMES)("the image %s", (name) => {
  test("has a size of at most 250 MB", () => {
    expect(image(name).size).toBeLessThanOrEqual(LARGEST);
    expect(image(name).size, "an archive without its layers would pass too").toBeGreaterThan(LARGEST / 2);
  });

  test("runs as an unprivileged user, and has labels with version and source", () => {
    const { config, references } = image(name);
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(references).toEqual([`localhost/${name}:under-test`]);
    expect(config).toMatchObject({
      User: "10001:10001",
      Env: ["PATH=/usr/local/bin:/usr/bin"],
      WorkingDir: "/app",
      Healthcheck: { Test: ["NONE"] },
      Entrypoint: [
        { "deputize-keyvault": "keyvault", "deputize-postgres": "trial-postgres" }[name as string] ?? name,
      ],
    });
    expect(config.Labels).toMatchObject({
      "org.opencontainers.image.title": name,
      "org.opencontainers.image.licenses": "Apache-2.0",
      "org.opencontainers.image.authors": "Deputize maintainers",
      "org.opencontainers.image.url": "https://deputize.io",
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.revision": expect.stringMatching(`^${commit}(-dirty)?$`),
      "org.opencontainers.image.description": expect.stringMatching(/\.$/),
    });
  });

  test("runs the locked Node", () => {
    const node = readFileSync(join(image(name).root, "usr/local/bin/node"));
    expect(createHash("sha256").update(node).digest("hex")).toBe(NODE_HASHES[NODE_PACKAGE]);
  });

  test("contains no shell or other tool unless it needs one", async () => {
    const { root } = image(name);
    expect(await readdir(join(root, "usr/bin"))).toEqual(name === "deputize" ? [] : ["sh"]);
    expect(await readdir(join(root, "usr/sbin"))).toEqual([]);
    expect((await readdir(join(root, "usr/local/bin"))).sort()).toEqual(
      ["node", ...image(name).config.Entrypoint].sort(),
    );
  });

  test("contains nothing for tests, development or installation", async () => {
    const own = (await entriesOf(name))
      .map(({ path }) => path)
      .filter((path) => !path.includes("/node_modules/"));
    const strange =
      /\.test\.ts$|(^|\/)(_cacache|\.npm|\.cache|\.git|yarn|npm|corepack)(\/|$)|^(root|home)(\/|$)/;
    expect(own.filter((path) => strange.test(path))).toEqual([]);
    const app = (await readdir(join(image(name).root, "app"))).sort();
    expect(app).toEqual(
      {
        deputize: ["crds", "node_modules", "package.json", "src"],
        "deputize-keyvault": ["keyvault", "node_modules", "package.json", "src"],
        "deputize-postgres": ["main.ts", "postgres"],
      }[name],
    );
    // The command `deputize mcp-proxy` runs in the image, so it contains the SDK in TypeScript.
    expect(own.filter((path) => /^app\/src\/(dev|plugin|sdk\/python)(\/|$)/.test(path))).toEqual([]);
  });

  test("contains only files owned by root, no file that others can write, and no setuid files", async () => {
    const entries = await entriesOf(name);
    expect(entries.filter(({ owner }) => owner !== "0:0")).toEqual([]);
    expect(entries.filter(({ isFile, mode }) => isFile && (mode & 0o6000) !== 0)).toEqual([]);
    const writable = entries.filter(({ isLink, mode }) => !isLink && (mode & 0o022) !== 0);
    expect(writable).toMatchObject([{ path: "tmp", mode: 0o1777 }]);
    // If a program file is not readable, Linux lets no other process inspect its process.
    const closed = entries.filter(({ isLink, mode }) => !isLink && (mode & 0o004) === 0);
    expect(closed.map(({ path }) => path)).toEqual(
      name === "deputize-keyvault" ? ["usr/local/bin/node"] : [],
    );
  });

  test("contains none of the additional certificates that the build trusted", async () => {
    const entries = await entriesOf(name);
    const outside = entries.filter(({ path }) => !path.startsWith("app/node_modules/"));
    expect(outside.filter(({ path }) => /\.(pem|crt|cer)$|^etc\/ssl/.test(path))).toEqual([]);
    for (const { path } of entries.filter(({ isFile }) => isFile)) {
      expect((await readFile(join(image(name).root, path))).includes(CA_MARKER), path).toBe(false);
    }
    expect(image(name).description).not.toContain(CA_MARKER);
  });

  test("lists the Debian packages of its files, with their licenses", async () => {
    const { root } = image(name);
    const packages = await readdir(join(root, "var/lib/dpkg/status.d"));
    const more = {
      deputize: [],
      "deputize-keyvault": ["dash", "libsofthsm2"],
      "deputize-postgres": ["dash"],
    }[name];
    expect(packages).toEqual(expect.arrayContaining(["libc6", "libstdc++6", "libgcc-s1", ...more]));
    for (const each of packages) {
      expect(await readFile(join(root, "var/lib/dpkg/status.d", each), "utf8")).toMatch(/^Version: \S+$/m);
    }
    expect(existsSync(join(root, "usr/share/doc/libc6/copyright"))).toBe(true);
  });
});

describe.each(["deputize", "deputize-keyvault"])("the npm packages in %s", (name) => {
  test("match its bill of materials exactly", async () => {
    const bill = image(name)
      .bill.components.map((each) => `${each.name}@${each.version}`)
      .sort();
    expect(bill.length).toBeGreaterThan(30);
    expect(await packagesOf(name)).toEqual(bill);
  });

  test("include no development dependencies", async () => {
    const installed = new Set(names(await packagesOf(name)));
    expect(development().filter((each) => installed.has(each) && !each.startsWith("@types/"))).toEqual([]);
  });
});

test("only the vault's image contains the PKCS#11 library", async () => {
  expect(names(await packagesOf("deputize"))).not.toContain("pkcs11js");
  expect(names(await packagesOf("deputize-keyvault"))).toContain("pkcs11js");
});

// This table has only the roles that the tests below do not start.
test.each([
  ["deputize", "operator", /^Settings are missing or wrong:\n/],
  ["deputize", "reconcile", /^Settings are missing or wrong:\n/],
  [
    "deputize-keyvault",
    "serve",
    /^keyvault: These settings are missing or wrong:\n {2}KEYVAULT_DATA_DIR: is missing\n/,
  ],
])("%s %s without settings lists the missing settings and exits with 78", async (name, command, words) => {
  const { status, said } = await runContainer(image(name), { args: [command], data: join(folder, "none") });
  expect(said).toMatch(words);
  expect(status).toBe(78);
});

test("deputize dev reports that it is not part of the image", async () => {
  const options = { args: ["dev"], data: join(folder, "none") };
  const { status, said } = await runContainer(image("deputize"), options);
  expect(said).toBe(
    "This command is not in the image. Run it in the project's folder: npm run deputize -- --help\n",
  );
  expect(status).toBe(1);
});

describe("an image with a read-only root file system and one volume", () => {
  const PASSWORD = "s3cret-of-the-database";
  const running: Container[] = [];
  let port: number;
  let database: string;
  const url = (role: string, name = role) => `postgres://${role}:${PASSWORD}@127.0.0.1:${port}/${name}`;

  async function start(name: string, options: ContainerOptions): Promise<Container> {
    const container = await startContainer(image(name), options);
    running.push(container);
    return container;
  }

  function startPostgres(): Promise<Container> {
    const files = ["--data=/data/db", "--password-file=/data/password", "--init-file=/data/init.sql"];
    return start("deputize-postgres", { args: [...files, "--", "-c", `port=${port}`], data: database });
  }

  function vaultOptions(args: string[], settings: Record<string, string> = {}): ContainerOptions {
    const own = { KEYVAULT_DATA_DIR: "/data/vault", KEYVAULT_DATABASE_URL: url("keyvault") };
    return { args, settings: { ...own, ...settings }, data: join(folder, "vault") };
  }

  beforeAll(async () => {
    port = await freePort();
    database = join(folder, "database");
    await mkdir(database);
    await writeFile(join(database, "password"), `${PASSWORD}\n`);
    const roles = ["deputize", "keyvault_owner", "keyvault"];
    const statements = [
      ...roles.map((role) => `create role ${role} login password '${PASSWORD}';`),
      "create database deputize owner deputize;",
      "create database keyvault owner keyvault_owner;",
    ];
    await writeFile(join(database, "init.sql"), `${statements.join("\n")}\n`);
    await (await startPostgres()).until(/ready to accept connections/);
  });
  afterAll(() => Promise.all(running.map((container) => container.stop())));

  test("Postgres keeps its data across a restart and logs no password", async () => {
    const first = running.pop() as Container;
    expect(await first.stop()).toBe(0);
    expect(first.said()).toContain("database system is shut down");
    expect(first.said()).not.toContain(PASSWORD);
    await rm(join(database, "init.sql"));
    const second = await startPostgres();
    await second.until(/ready to accept connections/);
    const client = new pg.Client(url("deputize"));
    await client.connect();
    const { rows } = await client.query(
      "select current_user, pg_encoding_to_char(encoding) as encoding from pg_database where datname = current_database()",
    );
    await client.end();
    expect(rows).toEqual([{ current_user: "deputize", encoding: "UTF8" }]);
    await expect(new pg.Client(url("deputize").replace(PASSWORD, "wrong")).connect()).rejects.toThrow(
      "password",
    );
  });

  test("a failed first start of Postgres reports the failure and leaves no database", async () => {
    const data = join(folder, "unfinished");
    await mkdir(data);
    await writeFile(join(data, "password"), "a\n");
    await writeFile(join(data, "init.sql"), `create role a login password '${PASSWORD}' nonsense;\n`);
    const args = ["--data=/data/db", "--password-file=/data/password", "--init-file=/data/init.sql"];
    const { status, said } = await runContainer(image("deputize-postgres"), { args, data });
    expect(status).toBe(1);
    expect(said).toMatch(/no database was made in \/data\/db\n$/);
    expect(said).not.toContain(PASSWORD);
    expect(existsSync(join(data, "db"))).toBe(false);
  });

  test("migrate, the vault on SoftHSM, the API and the worker start, become ready and stop", async () => {
    const settings = {
      DATABASE_URL: url("deputize"),
      SEALING_KEY: randomBytes(32).toString("base64"),
      DEVELOPMENT: "true",
    };
    const migrated = await runContainer(image("deputize"), {
      args: ["migrate"],
      settings,
      data: join(folder, "none"),
    });
    expect(migrated, migrated.said).toMatchObject({ status: 0 });

    const owner = { KEYVAULT_MIGRATION_DATABASE_URL: url("keyvault_owner", "keyvault") };
    const made = await runContainer(image("deputize-keyvault"), vaultOptions(["init"], owner));
    expect(made, made.said).toMatchObject({ status: 0 });
    const [vaultPort, apiPort, apiHealth, workerHealth] = [
      await freePort(),
      await freePort(),
      await freePort(),
      await freePort(),
    ];
    const vault = await start(
      "deputize-keyvault",
      vaultOptions(["serve"], { KEYVAULT_PORT: `${vaultPort}` }),
    );
    const tls = {
      VAULT_CA_FILE: "/data/vault/tls/ca.pem",
      VAULT_CERT_FILE: "/data/vault/tls/api.pem",
      VAULT_KEY_FILE: "/data/vault/tls/api.key",
    };
    const api = await start("deputize", {
      args: ["api"],
      settings: {
        ...settings,
        ...tls,
        VAULT_URL: `https://127.0.0.1:${vaultPort}`,
        BASE_URL: `http://localhost:${apiPort}`,
        PORT: `${apiPort}`,
        HEALTH_PORT: `${apiHealth}`,
      },
      data: join(folder, "vault"),
    });
    const worker = await start("deputize", {
      args: ["worker"],
      settings: { ...settings, HEALTH_PORT: `${workerHealth}` },
      data: join(folder, "none"),
    });
    for (const health of [apiHealth, workerHealth]) {
      await vi
        .waitFor(async () => expect((await fetch(`http://127.0.0.1:${health}/readyz`)).status).toBe(200), {
          timeout: 60_000,
          interval: 200,
        })
        .catch((error: unknown) => {
          throw new Error(`${error}\n${vault.said()}\n${api.said()}\n${worker.said()}`);
        });
    }
    expect(vault.said()).not.toMatch(/core_files_possible|memory_readable|folder_exposed|owner_url_present/);
    for (const container of [worker, api, vault]) {
      expect(await container.stop(), container.said()).toBe(0);
    }
  });
});
