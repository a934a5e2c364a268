import { beforeAll, describe, expect, test } from "vitest";
import { parseJson } from "../../src/protocol/encoding/json.ts";
import { type Coverage, startCoverage } from "./coverage.ts";
import { shareCurrent } from "./current.ts";
import { type FuzzFinding, fuzz, type Target } from "./loop.ts";
import { mutate } from "./mutations.ts";
import { parse } from "./oracles.ts";
import { createRandom } from "./random.ts";
import { genuineDocuments } from "./seeds.ts";
import { targetsOf } from "./targets.ts";

const NO_COVERAGE: Coverage = { sawNew: () => false, countNew: () => 0, total: () => 0, close: () => {} };

let targets: Target[];

beforeAll(async () => {
  targets = targetsOf(await genuineDocuments());
});

async function find(
  fuzzed: Target[],
  batches: number,
  coverage = NO_COVERAGE,
): Promise<{ findings: FuzzFinding[]; kept: number }> {
  const findings: FuzzFinding[] = [];
  let left = batches;
  const { kept } = await fuzz(fuzzed, {
    seed: 1,
    coverage,
    goesOn: () => left-- > 0,
    starts: () => {},
    finds: (finding) => findings.push(finding),
  });
  return { findings, kept };
}

describe("fuzzing", () => {
  test("accepts every genuine document, and finds no fault in a short run", async () => {
    const { findings, kept } = await find(targets, 2);
    expect(findings).toEqual([]);
    expect(kept).toBeGreaterThan(targets.length);
    for (const { name, seeds, run } of targets.filter(({ name }) => name !== "constraints")) {
      for (const seed of seeds) expect(await run(seed), name).toMatch(/^(accepted|verified|genuine)/);
    }
  });

  test("finds two planted faults: a crash, and a protocol error where no error is allowed", async () => {
    const seeds = [Buffer.from('{"a":[1,2]}')];
    const crash: Target = {
      name: "crash",
      seeds,
      run: (input) => {
        if (Buffer.from(input).includes("\u2028")) throw new TypeError("planted");
        return "fine";
      },
    };
    const slip: Target = {
      name: "slip",
      seeds,
      run: (input) => (input.length === 12 ? parse(Buffer.from("{}")) : String(parseJson(input))),
    };
    const found = await find([crash, slip], 60);
    expect(found.findings.map(({ target, message }) => [target, message.split(":")[0]])).toEqual(
      expect.arrayContaining([
        ["crash", "TypeError"],
        ["slip", "ProtocolError"],
      ]),
    );
  });

  test("keeps inputs that execute source code for the first time", async () => {
    const coverage = startCoverage(
      new URL("../../src/protocol/encoding/json_reader.ts", import.meta.url).href,
    );
    const target: Target = {
      name: "parser",
      seeds: [Buffer.from("[]")],
      run: (input) => {
        try {
          parseJson(input);
        } catch {}
        return "one outcome";
      },
    };
    const guided = await find([target], 40, coverage);
    coverage.close();
    const blind = await find([target], 40);
    expect(coverage.total()).toBeGreaterThan(0);
    expect(guided.kept).toBeGreaterThan(blind.kept);
  });

  test("repeats the same run with the same seed", () => {
    const [input, other] = [Buffer.from('{"a":[1,"b",null]}'), Buffer.from('["c",2]')];
    const run = (seed: number) => {
      const random = createRandom(seed);
      return Array.from({ length: 50 }, () => Buffer.from(mutate(input, other, random)).toString("hex"));
    };
    expect(run(7)).toEqual(run(7));
    expect(run(7)).not.toEqual(run(8));
  });
});

test("a second thread can read the input that the first thread is running", () => {
  const current = shareCurrent();
  const elsewhere = shareCurrent(current.memory);
  current.write("parser", Buffer.from("[1"));
  expect(elsewhere.read()).toEqual({ count: 1, name: "parser", input: Buffer.from("[1") });
});
