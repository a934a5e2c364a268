import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type KeptInput, keep, keepFinding, keptInputs } from "./corpus.ts";
import type { Target } from "./loop.ts";
import { type Genuine, genuineDocuments } from "./seeds.ts";
import { createShorthand, type Shorthand } from "./shorthand.ts";
import { targetsOf } from "./targets.ts";

const FEWEST_FOR_A_TARGET = 5;

let genuine: Genuine;
let shorthand: Shorthand;
let targets: Target[];
let kept: KeptInput[];
let folder: string;

beforeAll(async () => {
  genuine = await genuineDocuments();
  shorthand = createShorthand(genuine);
  targets = targetsOf(genuine);
  kept = keptInputs(shorthand);
  folder = await mkdtemp(join(tmpdir(), "corpus-"));
});

afterAll(() => rm(folder, { recursive: true }));

describe("the corpus", () => {
  test("has inputs for every target, and for no other targets", () => {
    const byTarget = Map.groupBy(kept, ({ target }) => target);
    expect([...byTarget.keys()].sort()).toEqual(targets.map(({ name }) => name).sort());
    for (const [target, inputs] of byTarget) {
      expect(inputs.length, target).toBeGreaterThanOrEqual(FEWEST_FOR_A_TARGET);
    }
  });

  test("produces the recorded results", async () => {
    for (const { target, outcome, why, input } of kept) {
      const answer = await targets.find(({ name }) => name === target)?.run(input);
      const name = `${target}, ${why}: ${Buffer.from(shorthand.shorten(input)).toString("utf8").slice(0, 200)}`;
      if (outcome === undefined) {
        expect(answer, name).toBeTypeOf("string");
      } else {
        expect(answer, name).toBe(outcome);
      }
    }
  });
});

describe("the storage for inputs", () => {
  test.each([
    ["text", Buffer.from('{"a":"é\u2028"}')],
    ["bytes that are not UTF-8", Buffer.from([0, 255, 0xe2, 0x9f])],
    ["nothing", Buffer.alloc(0)],
  ])("stores %s once, and returns it unchanged", async (name, input) => {
    const place = join(folder, name);
    keepFinding({ target: "parser", input, message: "a crash" }, shorthand, place);
    keep({ target: "parser", outcome: "accepted", why: "again", input }, shorthand, place);
    expect(keptInputs(shorthand, place)).toEqual([{ target: "parser", why: "found: a crash", input }]);
  });

  test("stores keys and signatures by name, so that every run uses those of the current seeds", async () => {
    const [document = Buffer.alloc(0)] = genuine.bundle;
    const place = join(folder, "names");
    const file = keep(
      { target: "bundle", outcome: "genuine", why: "whole", input: document },
      shorthand,
      place,
    );
    const text = await readFile(file, "utf8");
    expect(text).toContain("⟦bundle.0.delegations.0.signature.ml_dsa_65⟧");
    expect(text.length).toBeLessThan(1500);
    expect(Buffer.from(keptInputs(shorthand, place)[0]?.input ?? []).equals(Buffer.from(document))).toBe(
      true,
    );
    const others = createShorthand(await genuineDocuments());
    const elsewhere = keptInputs(others, place)[0]?.input ?? Buffer.alloc(0);
    expect(Buffer.from(others.shorten(elsewhere))).toEqual(Buffer.from(shorthand.shorten(document)));
    expect(Buffer.from(elsewhere).equals(Buffer.from(document))).toBe(false);
  });

  test("fails if an input contains a name that no seed has", () => {
    expect(() => shorthand.restore(Buffer.from("⟦bundle.99.agent_id⟧"))).toThrow(
      "no seed has bundle.99.agent_id",
    );
  });
});
