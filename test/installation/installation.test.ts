import { pino } from "pino";
import { describe, expect, test } from "vitest";
import {
  createInstallation,
  type Figure,
  type FigureState,
  figure,
  type Part,
} from "../../src/installation/installation.ts";
import { steeredClock } from "../support/clock.ts";

const clock = steeredClock();
const one = (state: FigureState = "well"): Figure =>
  figure({ name: "any", value: 1, at: clock.now(), state });

function heldPart() {
  const begun: { resolve(figures: Figure[]): void; reject(error: Error): void }[] = [];
  const part: Part = {
    name: "vault",
    read: () => new Promise((resolve, reject) => begun.push({ resolve, reject })),
  };
  return { part, begun };
}

const installationOf = (part: Part, more: { waitMs?: number; freshSeconds?: number } = {}) =>
  createInstallation({ parts: [part], clock, log: pino({ level: "silent" }), ...more });

describe("a part of the installation", () => {
  test("needs only one check for all concurrent callers", async () => {
    const { part, begun } = heldPart();
    const { read } = installationOf(part);
    const looks = [read("vault"), read("vault"), read("vault")];
    begun[0]?.resolve([one()]);
    const readings = await Promise.all(looks);
    expect(begun).toHaveLength(1);
    expect(new Set(readings).size).toBe(1);
  });

  test("keeps its result for five seconds, and then needs a new check", async () => {
    let readings = 0;
    const part: Part = {
      name: "vault",
      async read() {
        readings += 1;
        return [one()];
      },
    };
    const { read } = installationOf(part);
    await read("vault");
    clock.advance(4.999);
    await read("vault");
    expect(readings).toBe(1);
    clock.advance(0.001);
    await read("vault");
    expect(readings).toBe(2);
  });

  test("counts as unavailable if its check takes too long, and is not checked again until that check ends", async () => {
    const { part, begun } = heldPart();
    const { read } = installationOf(part, { waitMs: 5, freshSeconds: 0 });
    const away = { state: "away", fault: "no answer within 0.005 s", figures: [] };
    expect(await read("vault")).toMatchObject(away);
    expect(await read("vault")).toMatchObject(away);
    expect(begun).toHaveLength(1);
    begun[0]?.reject(new Error("too late"));
    const begunBy = async () => {
      await read("vault");
      return begun.length;
    };
    await expect.poll(begunBy).toBe(2);
  });

  test.each([
    ["well", ["well", "well"]],
    ["look", ["well", "look", "well"]],
    ["act", ["look", "act", "well"]],
  ] as const)("has state %s if its figures are %j", async (state, states) => {
    const part: Part = { name: "vault", read: async () => states.map(one) };
    expect(await installationOf(part).read("vault")).toMatchObject({ state, fault: null });
  });

  test("shows the reason for an outage, but no details of any other error", async () => {
    const faultOf = async (error: Error) => {
      const part: Part = { name: "vault", read: async () => Promise.reject(error) };
      return (await installationOf(part).read("vault")).fault;
    };
    const refused = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" });
    expect(await faultOf(refused)).toBe("connect ECONNREFUSED 127.0.0.1:1");
    expect(await faultOf(new Error("value secret is wrong"))).toBe(
      "it could not be read; the API's log says why",
    );
  });
});
