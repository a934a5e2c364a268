import { randomUUID } from "node:crypto";
import { describe, expect, inject, test } from "vitest";
import { actor, must } from "./story.ts";
import { createVisitor, errorOf } from "./visitor.ts";

const settings = inject("settings");
const ada = actor("ada");

describe("7. Errors", () => {
  test.each([
    ["broken JSON", "{"],
    ["JSON that is not an object", "[]"],
    ["duplicate members", '{"required_scope":"data:read","required_scope":"data:read"}'],
    ["no proof", { required_scope: "data:read" }],
    ["no scope", { proof_bundle: {} }],
    ["a scope that is not a string", { proof_bundle: {}, required_scope: 7 }],
  ])("verify returns 400 for %s, and the body contains error.code", async (_, body) => {
    expect(errorOf(await ada.application.call("POST", "/v1/service/verify", body))).toBe(
      "400 invalid_request",
    );
  });

  test.each([[{}], [[]], ["abc"], [7], [null], [{ agent_id: "x" }]])(
    "verify returns 400 invalid_proof for the proof %j",
    async (proof) => {
      expect(errorOf(await ada.verify(proof, "data:read"))).toBe("400 invalid_proof");
    },
  );

  test("verify returns 400 for a proof with one changed character, and the challenge stays unused", async () => {
    const agentId = await ada.createAgent();
    await ada.delegate(agentId, ["data:read"]);
    const proof = (await ada.proof(agentId)) as { challenge_sig: { ed25519: string } };
    const { ed25519 } = proof.challenge_sig;
    const changed = `${ed25519.startsWith("A") ? "B" : "A"}${ed25519.slice(1)}`;
    const forged = { ...proof, challenge_sig: { ...proof.challenge_sig, ed25519: changed } };
    expect(errorOf(await ada.verify(forged, "data:read"))).toBe("400 invalid_proof");
    expect(must(await ada.verify(proof, "data:read")).decision).toBe("allow");
  });

  test("verify returns 400 invalid_scope for a required scope that is invalid or a wildcard", async () => {
    const agentId = await ada.createAgent();
    await ada.delegate(agentId, ["data:read"]);
    for (const scope of ["data:*", "nope", "custom:"]) {
      expect(errorOf(await ada.verify(await ada.proof(agentId), scope))).toBe("400 invalid_scope");
    }
  });

  test("an unknown path returns 404, and a method that the path does not support returns 405", async () => {
    expect(errorOf(await ada.application.call("POST", "/v1/service/nothing", {}))).toBe("404 not_found");
    expect(errorOf(await ada.application.call("GET", "/v1/service/verify"))).toBe("405 method_not_allowed");
  });

  test("a body over 256 kB is refused with 400", async () => {
    const answer = await ada.application.call("POST", "/v1/service/verify", { padding: "x".repeat(262_144) });
    expect(errorOf(answer)).toBe("400 invalid_request");
  });

  test("every response has X-Request-Id, with the caller's own value if the call had one", async () => {
    const own = randomUUID();
    const answer = await ada.application.call("POST", "/v1/service/challenge", undefined, {
      "x-request-id": own,
    });
    expect(answer.headers.get("x-request-id")).toBe(own);
    expect((await ada.person.call("GET", "/nowhere")).headers.get("x-request-id")).toMatch(/\S/);
  });

  test.skipIf(!settings.limits)(
    "too many requests for sign-in codes are refused with 429 rate_limited and Retry-After",
    async () => {
      const visitor = createVisitor(settings);
      for (let sent = 0; sent < 2_000; sent += 1) {
        const email = `many-${randomUUID()}@example.test`;
        const answer = await visitor.call("POST", "/v1/auth/email/send-code", { email });
        if (answer.status === 200) continue;
        expect(errorOf(answer)).toBe("429 rate_limited");
        expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
        return;
      }
      throw new Error("2,000 codes were sent");
    },
  );
});
