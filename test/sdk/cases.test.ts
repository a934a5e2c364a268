import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { hidesDotSegment } from "../../src/protocol/constraints/resource_path.ts";
import { requestHash } from "../../src/protocol/documents/context_binding.ts";
import { isRequirableScope } from "../../src/protocol/documents/scopes.ts";
import { canonicalBytes, canonicalJson } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { readAsk } from "../../src/sdk/agent/asking.ts";
import { readRequest } from "../../src/sdk/agent/request.ts";
import {
  type AgentVerifier,
  checkExpected,
  readVerifier,
  readVerifiers,
} from "../../src/sdk/agent/verifiers.ts";
import { createGuard } from "../../src/sdk/create_guard.ts";
import { rule } from "../../src/sdk/enforcement.ts";
import { faultOf } from "../../src/sdk/faults.ts";
import { readBody as readTyped } from "../../src/sdk/frameworks/web.ts";
import { describeOperation } from "../../src/sdk/operation.ts";
import { readProof } from "../../src/sdk/proof.ts";
import { verifyWebhook } from "../../src/sdk/webhook.ts";
import type shared from "./cases.json";
import { canonicalForm, readBody } from "./python/documents.ts";

/** Vite's own parser of JSON refuses the lone surrogates that some cases contain. */
const cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf8")) as typeof shared;

/** Returns the members with the names that TypeScript has for them. */
function camelCased(members: object): Record<string, unknown> {
  const camel = (name: string) => name.replace(/_./g, (part) => part.charAt(1).toUpperCase());
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), value]));
}

/** `python.slow.test.ts` runs the same cases with the Python package. */
describe("the cases that both languages share:", () => {
  test.each(cases.canonical)("canonical JSON of $name", ({ json, canonical }) => {
    expect(canonicalForm(json)).toBe(canonical);
  });

  test.each(cases.operations)("an operation with $name", (each) => {
    const digest = (text: string) =>
      createHash("sha256")
        .update(canonicalBytes(readBody(text)))
        .digest();
    const hashed = () => {
      const payload_digest = each.payload === null ? undefined : digest(each.payload);
      const hash = requestHash({ ...each, operation: each.action, payload_digest });
      return [payload_digest, hash].map((bytes) => bytes && `sha256:${Buffer.from(bytes).toString("hex")}`);
    };
    if (each.request_hash === null) {
      expect(hashed).toThrow();
    } else {
      expect(hashed()).toEqual([each.payload_digest ?? undefined, each.request_hash]);
    }
  });

  test.each(cases.refusals)("a refusal after $name", ({ status, body, finding, refusal }) => {
    const ruling = rule({ answered: true, status, body: Buffer.from(body) });
    const { message: _, evaluationId, ...found } = ruling.refusal ?? {};
    const named = evaluationId === undefined ? {} : { evaluation_id: evaluationId };
    expect([ruling.finding, ruling.refusal && { ...found, ...named }]).toEqual([
      finding,
      refusal ?? undefined,
    ]);
  });

  test.each(cases.webhooks)("a webhook with $name", ({ body, result, ...given }) => {
    const headers: Record<string, string> = given.headers;
    const check = verifyWebhook({ ...given, headers, rawBody: Buffer.from(body) });
    expect(check.ok ? "ok" : check.reason).toBe(result);
  });

  test.each(cases.scopes)("the scope $scope", ({ scope, requirable }) => {
    expect(isRequirableScope(scope)).toBe(requirable);
  });

  test.each(cases.paths)("the path $path", ({ path, hides }) => {
    expect(hidesDotSegment(path)).toBe(hides);
  });

  test.each(cases.bodies)("a body with $name", ({ content_type, body: text, read }) => {
    const found = () => readTyped(content_type ?? "", Buffer.from(text));
    if (read === "invalid") return void expect(found).toThrow(ProtocolError);
    const { body, isSent, isOtherType } = found();
    const value = body instanceof Uint8Array ? "bytes" : isSent && `json:${canonicalJson(body)}`;
    expect(isOtherType ? "unbindable" : value || "absent").toBe(read);
  });

  test.each(cases.options)("the option $option with $members", ({ option, members, accepted }) => {
    const given = camelCased(members);
    const readers: Record<string, () => unknown> = {
      ask: () => readAsk(given as never),
      agent_verifier: () => readVerifier(given),
      expected_verifier: () =>
        readRequest("https://a.example", { scope: "data:read", verifier: given as never }),
      guard_verifier: () =>
        createGuard({ baseUrl: "https://a.example", apiKey: "k", verifier: given as never }),
    };
    const read = readers[option] ?? (() => undefined);
    if (accepted) expect(read()).toBeDefined();
    else expect(read).toThrow(TypeError);
  });

  test.each(cases.bindings)("the description of an operation, $described", (each) => {
    const { required_scope, ...operation } = each.operation;
    expect(describeOperation(operation as never, required_scope)).toBe(each.described);
  });

  test.each(cases.faults)(
    "a fault after $name",
    ({ described, status, code, message = "", bound, fault }) => {
      const body = Buffer.from(JSON.stringify({ error: { code, message, status } }));
      const { required_scope: requiredScope = "", ...operation } = cases.bindings[0]?.operation ?? {};
      const asked = { requiredScope, operation: bound ? (operation as never) : undefined };
      const found = faultOf(rule({ answered: true, status, body }), {
        ...asked,
        described: described ?? undefined,
        request: undefined,
      });
      const differs = found && "differs" in found ? { differs: found.differs ?? null } : {};
      const shown = found && "message" in found ? { message: found.message } : {};
      expect(found && { kind: found.kind, ...differs, ...shown }).toEqual(fault ?? undefined);
    },
  );

  test.each(cases.verifiers)("a verifier with $name", ({ verifiers, url, expected, found }) => {
    const read = (members: object) => readVerifier(camelCased(members));
    const named = Object.entries(verifiers).map(([address, members]) => [address, read(members)]);
    const find = () => {
      const verifier = readVerifiers(Object.fromEntries(named))(new URL(url)) as AgentVerifier;
      checkExpected(expected === null ? undefined : (read(expected) as AgentVerifier), verifier);
      return verifier;
    };
    if (typeof found === "string") expect(find).toThrow(expect.objectContaining({ code: found }));
    else expect(find()).toEqual(read(found));
  });

  test.each(cases.proofs)("a proof as $name", ({ source, read }) => {
    const proof = readProof(source);
    expect(proof && { ...proof, agentId: proof.agentId ?? null }).toEqual(
      read === null ? undefined : { member: read.member, json: read.json, agentId: read.agent_id },
    );
  });
});
