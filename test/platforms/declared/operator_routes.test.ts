import { randomUUID } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { type Person, runningApi } from "../../support/api.ts";
import { errorCode, registerPlatform } from "../../support/platform_world.ts";
import { declaration, declarations, newUid, path } from "../declarations.ts";

const api = runningApi();
afterEach(() => {
  api.vault.failure = undefined;
});

const { put, declared, list } = declarations(api);

describe("PUT /internal/v1/platforms/{external_id}", () => {
  test("registers the platform and returns working credentials", async () => {
    const { person, answer, credentials } = await declared({ callback_url: "https://hooks.example.com/" });
    expect(answer.body).toEqual({
      platform_id: expect.any(String),
      connection_id: expect.any(String),
      workspace_id: person.accountId,
      verifier_id: answer.body.connection_id,
      ...{ publish_state: "draft", customers: 0 },
      api_key_prefix: credentials.api_key!.slice(0, 12),
      api_key_issued_at: api.clock.now().toISOString(),
      rotation_request: null,
      default_allowed_scopes: ["data:read", "data:share"],
      callback_url: "https://hooks.example.com/",
      credentials: {
        api_key: expect.stringMatching(/^dpz_/),
        signing_secret: expect.stringMatching(/^dps_/),
        webhook_signing_secret: expect.stringMatching(/^whsec_/),
      },
    });
    expect((await list(answer, credentials.api_key)).status).toBe(200);
    const shown = await person.client.get("/v1/service/platforms");
    expect(shown.body.items).toMatchObject([{ platform_id: answer.body.platform_id, name: "Shop" }]);
  });

  test("finds the account whatever the letter case of its address", async () => {
    const person = await api.person();
    const answer = await put(newUid(), declaration(person, { account_email: person.email.toUpperCase() }));
    expect(answer.status).toBe(200);
  });

  test("finds the account by any notation of a non-ASCII address", async () => {
    const email = `jörg.${randomUUID()}@bücher.example`;
    const client = api.client();
    await client.onboard(email.replace("bücher", "xn--bcher-kva"));
    await client.call("PUT", "/v1/service/namespace-bindings/c1/default", { body: {} });
    const person = await api.person();
    const uid = newUid();
    for (const account_email of [email, email.toUpperCase(), email.normalize("NFD")]) {
      expect((await put(uid, declaration(person, { account_email }))).status).toBe(200);
    }
  });

  test("returns the same answer, including the credentials, until they are acknowledged", async () => {
    const { person, id, answer, credentials } = await declared();
    const again = await put(id, declaration(person));
    expect(again.body).toEqual(answer.body);
    const acknowledge = (prefix: string) =>
      api.operator("POST", `${path(id)}/credentials/acknowledge`, { api_key_prefix: prefix });
    expect(errorCode(await acknowledge("dpz_00000000"))).toBe("external_conflict");
    expect((await put(id, declaration(person))).body.credentials).toEqual(credentials);
    for (let time = 0; time < 2; time += 1) {
      const acknowledged = await acknowledge(credentials.api_key!.slice(0, 12));
      expect([acknowledged.status, acknowledged.body]).toEqual([200, { acknowledged: true }]);
    }
    expect((await put(id, declaration(person))).body).toEqual({ ...answer.body, credentials: null });
    expect(await api.events(String(answer.body.connection_id))).toHaveLength(1);
  });

  test("registers the platform once when 8 calls race", async () => {
    const person = await api.person();
    const id = newUid();
    const answers = await Promise.all(Array.from({ length: 8 }, () => put(id, declaration(person))));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    for (const { body } of answers) expect(body).toEqual(answers[0]!.body);
    expect(await api.db("platforms").where({ account_id: person.accountId })).toHaveLength(1);
  });

  test("applies a new name, description, smaller ceiling, and callback URL if given", async () => {
    const { person, id, answer } = await declared({ callback_url: "https://one.example/", description: "d" });
    const renamed = await put(
      id,
      declaration(person, { name: "Renamed", default_allowed_scopes: ["data:read"] }),
    );
    expect(renamed.body).toMatchObject({
      callback_url: "https://one.example/",
      default_allowed_scopes: ["data:read"],
      connection_id: answer.body.connection_id,
    });
    const shown = await person.client.get(`/v1/service/platforms/${String(answer.body.platform_id)}`);
    expect(shown.body).toMatchObject({
      name: "Renamed",
      description: "",
      default_allowed_scopes: ["data:read"],
    });
    const now = declaration(person, { name: "Renamed", default_allowed_scopes: ["data:read"] });
    expect((await put(id, { ...now, callback_url: "https://two.example/" })).body.callback_url).toBe(
      "https://two.example/",
    );
    expect((await put(id, { ...now, callback_url: null })).body.callback_url).toBeNull();
    const widened = await put(id, declaration(person));
    expect([widened.status, errorCode(widened)]).toEqual([400, "ceiling_widened"]);
  });

  test("changes nothing when one of the changes is refused", async () => {
    const { person, id, answer } = await declared();
    const refused = await put(id, declaration(person, { name: "New", callback_url: "https://10.0.0.1/" }));
    expect(errorCode(refused)).toBe("invalid_callback_url");
    const shown = await person.client.get(`/v1/service/platforms/${String(answer.body.platform_id)}`);
    expect(shown.body.name).toBe("Shop");
  });

  test("follows the same rules as registrations by users", async () => {
    const person = await api.person();
    const refused = async (fields: Record<string, unknown>) =>
      errorCode(await put(newUid(), declaration(person, fields)));
    expect(await refused({ default_allowed_scopes: ["nope"] })).toBe("invalid_scopes");
    expect(await refused({ surface_type: "meetings" })).toBe("surface_not_available");
    expect(await refused({ callback_url: "ftp://x/" })).toBe("invalid_callback_url");
    expect(await refused({ account_email: "nobody@example.test" })).toBe("namespace_not_bound");
    expect(await refused({ name: "" })).toBe("invalid_request");
    await registerPlatform(person);
    expect(await refused({})).toBe("platform_limit");
  });

  test("needs a complete onboarding", async () => {
    const client = api.client();
    const email = `${randomUUID()}@example.test`;
    await client.signIn(email);
    const answer = await put(newUid(), declaration({ email } as Person));
    expect([answer.status, errorCode(answer)]).toEqual([404, "namespace_not_bound"]);
  });

  test("refuses a different account or surface for a registered object, and an object whose platform was removed", async () => {
    const { person, id } = await declared();
    const other = await api.person();
    expect(errorCode(await put(id, declaration(other)))).toBe("external_conflict");
    expect(errorCode(await put(id, declaration(person, { surface_type: "meetings" })))).toBe(
      "external_conflict",
    );
    await api.operator("DELETE", path(id));
    expect(errorCode(await put(id, declaration(person)))).toBe("external_conflict");
  });

  test("registers at most ten platforms of one name in ten minutes, and others of other names", async () => {
    const person = await api.person({ organization_name: "Shops" });
    const body = declaration(person, { object: { namespace: "default", name: "again" } });
    const codes: unknown[] = [];
    for (let count = 0; count < 11; count += 1) {
      const id = newUid();
      const answer = await put(id, body);
      codes.push(answer.status === 200 ? "registered" : errorCode(answer));
      await api.operator("DELETE", path(id));
    }
    expect(codes).toEqual([...Array(10).fill("registered"), "action_limited"]);
    expect((await put(newUid(), declaration(person))).status).toBe(200);
  });

  test("registers the platform for only one account when several accounts race for an object", async () => {
    const people = await Promise.all([api.person(), api.person(), api.person()]);
    const id = newUid();
    const answers = await Promise.all(people.map((person) => put(id, declaration(person))));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    expect(await api.db("platforms").where({ external_id: id })).toHaveLength(1);
  });
});

describe("POST /internal/v1/platforms/{external_id}/credentials/rotate", () => {
  test("replaces the key immediately, keeps the secrets, and returns them until they are acknowledged", async () => {
    const { person, id, answer, credentials } = await declared();
    await api.operator("POST", `${path(id)}/credentials/acknowledge`, {
      api_key_prefix: credentials.api_key!.slice(0, 12),
    });
    const rotated = await api.operator("POST", `${path(id)}/credentials/rotate`);
    const fresh = rotated.body.credentials as Record<string, string>;
    expect(rotated.body).toEqual({
      ...answer.body,
      api_key_issued_at: expect.any(String),
      api_key_prefix: fresh.api_key!.slice(0, 12),
      credentials: { ...credentials, api_key: fresh.api_key },
    });
    expect(fresh.api_key).not.toBe(credentials.api_key);
    expect((await put(id, declaration(person))).body).toEqual(rotated.body);
    expect((await list(answer, fresh.api_key)).status).toBe(200);
    await expect.poll(async () => (await list(answer, credentials.api_key)).status).toBe(401);
  });

  test("keeps the previous key valid for the requested time", async () => {
    const { id, answer, credentials } = await declared();
    const rotate = (grace_seconds: number) =>
      api.operator("POST", `${path(id)}/credentials/rotate`, { grace_seconds });
    expect((await rotate(86_400)).status).toBe(200);
    expect((await list(answer, credentials.api_key)).status).toBe(200);
    expect(errorCode(await rotate(86_401))).toBe("invalid_request");
  });

  test("replaces a key without a request at most twice in ten minutes, and then asks to wait", async () => {
    const { person, id } = await declared();
    const rotate = () => api.operator("POST", `${path(id)}/credentials/rotate`);
    const first = await rotate();
    const second = await rotate();
    const refused = await rotate();
    expect([first.status, second.status, errorCode(refused)]).toEqual([200, 200, "action_limited"]);
    const seconds = Number(refused.headers.get("retry-after"));
    expect(seconds).toBeGreaterThan(500);
    expect(seconds).toBeLessThanOrEqual(600);
    expect((await put(id, declaration(person))).body.api_key_prefix).toBe(second.body.api_key_prefix);
    const events = await api.events(String(second.body.connection_id));
    expect(events.filter(({ event }) => event === "connection.key_rotated")).toHaveLength(2);
  });

  test("carries out each new request for a key, even if the limit for other replacements is reached", async () => {
    const { id } = await declared();
    const rotate = (request?: string) =>
      api.operator("POST", `${path(id)}/credentials/rotate`, request === undefined ? {} : { request });
    for (let count = 0; count < 3; count += 1) await rotate();
    const first = await rotate("one");
    expect(first.body).toMatchObject({ rotation_request: "one", credentials: {} });
    expect(errorCode(await rotate("one"))).toBe("action_limited");
    for (const request of ["two", "three", "four", "five"]) {
      expect((await rotate(request)).body.rotation_request).toBe(request);
    }
    expect(errorCode(await rotate("six"))).toBe("action_limited");
    const { body } = await api.operator("POST", "/internal/v1/state", { external_ids: [id] });
    expect((body.platforms as Record<string, object>)[id]).toMatchObject({ rotation_request: "five" });
  });

  test("also gives the operator a key that was rotated in the console", async () => {
    const { person, id, answer, credentials } = await declared();
    await api.operator("POST", `${path(id)}/credentials/acknowledge`, {
      api_key_prefix: credentials.api_key!.slice(0, 12),
    });
    const rotated = await person.client.post(
      `/v1/service/connections/${String(answer.body.connection_id)}/rotate-key`,
    );
    const again = await put(id, declaration(person));
    expect(again.body.credentials).toEqual({ ...credentials, api_key: rotated.body.api_key });
  });

  test("returns not_found for an unknown or removed object", async () => {
    const { id } = await declared();
    await api.operator("DELETE", path(id));
    for (const each of [id, newUid()]) {
      expect(errorCode(await api.operator("POST", `${path(each)}/credentials/rotate`))).toBe("not_found");
      const body = { api_key_prefix: "dpz_00000000" };
      expect(errorCode(await api.operator("POST", `${path(each)}/credentials/acknowledge`, body))).toBe(
        "not_found",
      );
    }
  });
});

describe("DELETE /internal/v1/platforms/{external_id}", () => {
  test("removes the platform, and returns the same answer for a repeated call and for an unknown object", async () => {
    const { id, answer, credentials } = await declared();
    for (const each of [id, id, newUid()]) {
      const removed = await api.operator("DELETE", path(each));
      expect([removed.status, removed.body]).toEqual([200, { removed: true }]);
    }
    await expect.poll(async () => (await list(answer, credentials.api_key)).status).toBe(401);
    const events = await api.events(String(answer.body.connection_id));
    expect(events.map(({ event }) => event)).toEqual(["connection.created", "connection.removed"]);
    const row = await api
      .db("connections")
      .where({ connection_id: String(answer.body.connection_id) })
      .first();
    expect(row!.undelivered_sealed).toBeNull();
  });
});
