import { describe, expect, test } from "vitest";
import { type ApiClient, createStateReader } from "../../src/operator/api_client.ts";

const agents = (ids: string[]) =>
  Object.fromEntries(ids.map((id) => [id, { agent_id: `agent of ${id}`, disabled: false }]));

function reader(fail = false) {
  const batches: string[][] = [];
  const readState: ApiClient["readState"] = async (ids) => {
    batches.push(ids);
    if (fail) return { failure: { kind: "unavailable", message: "away" } };
    return {
      value: {
        time: "2026-01-01T00:00:00.000Z",
        platforms: {},
        agents: agents(ids.filter((id) => id !== "unknown")),
        delegations: {},
      },
    };
  };
  return { batches, states: createStateReader({ readState }) };
}

describe("the state reader", () => {
  test("combines concurrent reads into one call, and returns each object's own state", async () => {
    const { states, batches } = reader();
    const answers = await Promise.all(["a", "b", "unknown"].map((id) => states.read(id)));
    expect(batches).toEqual([["a", "b", "unknown"]]);
    expect(answers.map(({ value }) => value?.agent?.agent_id)).toEqual([
      "agent of a",
      "agent of b",
      undefined,
    ]);
    expect(answers[2]).toEqual({ value: {} });
  });

  test("reads at most 500 states in one call", async () => {
    const { states, batches } = reader();
    const ids = Array.from({ length: 1001 }, (_, index) => `id-${index}`);
    const answers = await Promise.all(ids.map((id) => states.read(id)));
    expect(batches.map((batch) => batch.length)).toEqual([500, 500, 1]);
    expect(answers[1000]?.value?.agent?.agent_id).toBe("agent of id-1000");
  });

  test("makes a new call for a later read", async () => {
    const { states, batches } = reader();
    await states.read("a");
    await states.read("a");
    expect(batches).toEqual([["a"], ["a"]]);
  });

  test("returns a failure to all reads that share the call", async () => {
    const { states } = reader(true);
    const answers = await Promise.all(["a", "b"].map((id) => states.read(id)));
    expect(answers.map(({ failure }) => failure?.kind)).toEqual(["unavailable", "unavailable"]);
  });
});
