import { beforeEach, describe, expect, test } from "vitest";
import { type Person, runningApi } from "../support/api.ts";
import { BINDINGS, namespaces, seen } from "./namespaces.ts";

const api = runningApi();
let person: Person;
const { declare, accept } = namespaces(api, () => person);
const notBound = [404, "namespace_not_bound"];

describe("an acceptance of a namespace", () => {
  beforeEach(async () => {
    person = await api.person({ organization_name: "Analytical Engines" });
  });

  const declareIn = async (namespace_uid: string | undefined, fields: object = {}) =>
    seen(await declare("shop", { ...(namespace_uid !== undefined && { namespace_uid }), ...fields }))[0];
  const binding = async () => {
    const { body } = await person.client.get(BINDINGS);
    const all = body.namespace_bindings as Record<string, unknown>[];
    return all.find(({ namespace }) => namespace === "shop");
  };

  test("ends when the namespace was created again, and becomes a request with the former limits", async () => {
    expect(await declareIn("first")).toBe(404);
    await accept("c1/shop", { ceiling: ["data:*", "payments:*"], four_eyes: true });
    expect(await declareIn("first")).toBe(200);
    expect(seen(await declare("shop", { namespace_uid: "second", name: "other" }))).toEqual(notBound);
    expect(await binding()).toMatchObject({
      status: "asking",
      accepted_at: null,
      accepted_by: null,
      ceiling: ["data:*", "payments:*"],
      four_eyes: true,
    });
    await accept("c1/shop");
    expect(await declareIn("second", { name: "other" })).toBe(200);
    expect(await declareIn("second")).toBe(200);
  });

  test("binds the first namespace that registers a Platform, if no namespace had asked", async () => {
    await accept("c1/shop");
    expect(await declareIn("first")).toBe(200);
    expect(await declareIn("second")).toBe(404);
    expect(await declareIn("first")).toBe(404);
  });

  test("counts for the namespace that asked last", async () => {
    for (const uid of ["first", "second"]) expect(await declareIn(uid)).toBe(404);
    await accept("c1/shop");
    expect(await declareIn("second")).toBe(200);
    expect(await declareIn("first")).toBe(404);
  });

  test("keeps its namespace when the owner changes the limits", async () => {
    await accept("c1/shop");
    expect(await declareIn("first")).toBe(200);
    await accept("c1/shop", { four_eyes: true });
    expect(await declareIn("second")).toBe(404);
  });

  test("counts for an operator of a former version, which reports no uid", async () => {
    await accept("c1/shop");
    expect(await declareIn("first")).toBe(200);
    expect(await declareIn(undefined)).toBe(200);
    expect(await binding()).toMatchObject({ status: "accepted" });
  });

  test("does not let a former namespace's agents, keys or requests continue once another one has asked", async () => {
    const platform = "c1.platform";
    await accept("c1/shop");
    expect(await declareIn("first", { id: platform })).toBe(200);
    expect(await declareIn("second")).toBe(404);
    const rotated = await api.operator("POST", `/internal/v1/platforms/${platform}/credentials/rotate`, {});
    expect(seen(rotated)).toEqual(notBound);
    const agent = await api.operator("PUT", "/internal/v1/agents/c1.agent", {
      object: { namespace: "shop", name: "bot" },
      platform_external_id: platform,
      name: "bot",
      agent_type: "robot",
    });
    expect(seen(agent)).toEqual(notBound);
  });

  test("leaves no recorded ceilings to a namespace that was created again", async () => {
    const narrow = { id: "c1.narrow", default_allowed_scopes: ["data:read"] };
    await accept("c1/shop");
    expect(await declareIn("first", narrow)).toBe(200);
    await api.operator("DELETE", "/internal/v1/platforms/c1.narrow");
    expect(seen(await declare("shop", { namespace_uid: "first" }))).toEqual([400, "ceiling_widened"]);
    expect(await declareIn("second")).toBe(404);
    await accept("c1/shop");
    expect(await declareIn("second")).toBe(200);
  });

  test("refuses to accept another namespace than the one that the owner saw", async () => {
    const uid = async () => (await binding())?.namespace_uid;
    const conflict = [409, "external_conflict"];
    expect(seen(await accept("c1/shop", { namespace_uid: "first" }))).toEqual(conflict);
    expect(await binding()).toBeUndefined();
    expect(await declareIn("first")).toBe(404);
    expect(await uid()).toBe("first");
    expect(seen(await accept("c1/shop", { namespace_uid: null }))).toEqual(conflict);
    expect((await accept("c1/shop", { namespace_uid: "first" })).body.namespace_uid).toBe("first");
    expect(await declareIn("second")).toBe(404);
    expect(seen(await accept("c1/shop", { namespace_uid: "first" }))).toEqual(conflict);
    expect(await binding()).toMatchObject({ status: "asking", namespace_uid: "second" });
    expect((await accept("c1/shop", { namespace_uid: "second" })).status).toBe(200);
    expect((await accept("c1/new", { namespace_uid: null })).body.namespace_uid).toBeNull();
  });

  test("refuses an invalid uid", async () => {
    await accept("c1/shop");
    for (const namespace_uid of ["", "a b", "x".repeat(65)]) {
      expect(seen(await declare("shop", { namespace_uid }))).toEqual([400, "invalid_request"]);
      expect(seen(await accept("c1/shop", { namespace_uid }))).toEqual([400, "invalid_request"]);
    }
  });
});
