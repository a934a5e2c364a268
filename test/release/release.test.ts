import { generateKeyPairSync } from "node:crypto";
import { readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ReleaseOptions } from "../../src/dev/release/release.ts";
import { releaseWith } from "./released.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-refused-release-"));
  const pem = { type: "pkcs8", format: "pem" } as const;
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  await writeFile(join(folder, "p256"), ec.export({ ...pem, cipher: "aes-256-cbc", passphrase: "right" }));
  await writeFile(join(folder, "rsa"), rsa.export(pem));
  await writeFile(join(folder, "wrong"), "wrong");
  await mkdir(join(folder, "used/file"), { recursive: true });
  await mkdir(join(folder, "nothing"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const file = (name: string) => join(folder, name);
const registry = "registry.example.com/team";

type Refused = [string, () => ReleaseOptions, string];

const REFUSED: Refused[] = [
  ["no options", () => ({}), "A release needs --registry"],
  ["no key", () => ({ registry, downloads: "https://example.com" }), "A release needs --key"],
  [
    "a host without a path",
    () => ({ dryRun: true, registry: "registry.example.com" }),
    "is not a host with a path",
  ],
  [
    "a registry with a scheme",
    () => ({ dryRun: true, registry: `https://${registry}` }),
    "is not a host with a path",
  ],
  [
    "a path with spaces on this machine",
    () => ({ dryRun: true, registry: "localhost:5000/a b" }),
    "is not a host",
  ],
  ["a key that does not exist", () => ({ dryRun: true, key: file("absent") }), "cannot be read"],
  [
    "an encrypted key without a passphrase",
    () => ({ dryRun: true, key: file("p256") }),
    "is not a private key in PEM",
  ],
  [
    "a wrong passphrase",
    () => ({ dryRun: true, key: file("p256"), passphraseFile: file("wrong") }),
    "its passphrase is wrong",
  ],
  ["a key of another kind", () => ({ dryRun: true, key: file("rsa") }), "is not a P-256 key"],
  ["a folder with files", () => ({ dryRun: true, out: file("used") }), "is not empty"],
  [
    "a folder without images",
    () => ({ dryRun: true, images: file("nothing") }),
    "deputize.tar does not exist",
  ],
  ["no base image", () => ({ dryRun: true }), "Choose the base image with --base or with --local-base"],
];

test.each(REFUSED)("a release refuses %s", async (_, options, message) => {
  const out = await mkdtemp(join(folder, "out-"));
  await expect(releaseWith({ out, ...options() })).rejects.toThrow(message);
  expect(readdirSync(out).filter((name) => /^(work-|oci)/.test(name) && name !== "oci")).toEqual([]);
});
