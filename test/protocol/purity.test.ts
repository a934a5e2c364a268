import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { expect, test } from "vitest";
import { signHybrid, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { ROOT } from "../support/chains.ts";

const FOLDER = resolve(import.meta.dirname, "../../src/protocol");
const PACKAGES = ["node:crypto", "node:buffer", "node:util", "lru-cache", "@noble/"];
const IMPURE =
  /\b(?:Date|performance|process|fetch|setTimeout|setInterval|setImmediate|WebSocket)\b|Temporal\.Now|Math\.random/;

const sources = readdirSync(FOLDER, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => ({ name, text: codeOf(readFileSync(resolve(FOLDER, name), "utf8")) }));

const isOwn = (source: string, from: string) =>
  /^\.{1,2}\//.test(from) && !relative(FOLDER, resolve(FOLDER, dirname(source), from)).startsWith("..");

test("the protocol code imports no modules for files, networks, databases or clocks", () => {
  expect(sources.length).toBeGreaterThan(30);
  for (const { name, text } of sources) {
    const imported = [...text.matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"\)/g)].map(
      (match) => match[1] ?? match[2] ?? "",
    );
    const foreign = imported.filter(
      (from) => !isOwn(name, from) && !PACKAGES.some((allowed) => from.startsWith(allowed)),
    );
    expect(foreign, name).toEqual([]);
  }
});

test("the protocol code does not read a clock or the environment", () => {
  for (const { name, text } of sources) expect(IMPURE.exec(text)?.[0], name).toBeUndefined();
});

test("both halves of a signature are created and verified on the thread pool", async () => {
  // Other tests' background work signs too, so only requests of this test count.
  const own = new AsyncLocalStorage<true>();
  let requests = 0;
  const hook = createHook({
    init: (_, type) => void (type === "SIGNREQUEST" && own.getStore() && requests++),
  }).enable();
  await own.run(true, async () => {
    const signature = await signHybrid(ROOT.privateKey, Buffer.from("a"));
    expect(requests).toBe(2);
    expect(await verifyHybrid(ROOT.publicKey, Buffer.from("a"), signature)).toBe(true);
  });
  hook.disable();
  expect(requests).toBe(4);
});

function codeOf(source: string): string {
  return source.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
}
