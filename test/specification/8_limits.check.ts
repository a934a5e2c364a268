import { describe, expect, test } from "vitest";
import { actor, CEILING, must } from "./story.ts";
import { errorOf } from "./visitor.ts";

const ada = actor("ada");

describe("8. Limits", () => {
  test("the session lifetime is 15 minutes", async () => {
    const { expires_at } = must(await ada.person.call("GET", "/v1/auth/session"));
    const left = (Date.parse(String(expires_at)) - Date.now()) / 1000;
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(900 + 30);
  });

  test("only one of 16 concurrent verifications of the same challenge succeeds", async () => {
    const agentId = await ada.createAgent();
    await ada.delegate(agentId, ["data:read"]);
    const proof = await ada.proof(agentId);
    const answers = await Promise.all(Array.from({ length: 16 }, () => ada.verify(proof, "data:read")));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter((answer) => answer.status !== 200).map(errorOf)).toEqual(
      Array.from({ length: 15 }, () => "400 invalid_challenge"),
    );
  });

  test("a personal account can have only one draft platform", async () => {
    const answer = await ada.person.call("POST", "/v1/service/platforms/personal", {
      name: "Another",
      surface_type: "agentic_api",
      default_allowed_scopes: CEILING,
    });
    expect(errorOf(answer)).toBe("409 platform_limit");
  });

  test("a verification costs 0.002 USD", async () => {
    const agentId = await ada.createAgent();
    await ada.delegate(agentId, ["data:read"]);
    const credits = async () => Number(must(await ada.person.call("GET", "/v1/auth/session")).credits);
    const before = await credits();
    must(await ada.verify(await ada.proof(agentId), "data:read"));
    must(await ada.verify(await ada.proof(agentId), "data:share"));
    await ada.verify({}, "data:read");
    expect(before - (await credits())).toBe(2 * 2_000);
  });
});

describe("9. Versioning", () => {
  test("all paths of the service have the prefix /v1/", async () => {
    const { paths } = must(await ada.person.call("GET", "/openapi.json"));
    const outside = Object.keys(paths as object).filter((path) => !path.startsWith("/v1/"));
    // The AuthZEN specification and RFC 8414 define these paths.
    expect(outside.sort()).toEqual([
      "/.well-known/authzen-configuration",
      "/.well-known/oauth-authorization-server",
      "/access/v1/evaluation",
      "/access/v1/evaluations",
    ]);
  });
});
