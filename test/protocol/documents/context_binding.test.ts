import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { requestHash, sessionContext } from "../../../src/protocol/documents/context_binding.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const operation = {
  required_scope: "files:write",
  operation: "commit",
  resource_id: "git:example.org/r",
  requested_path: "/docs/é.md",
  payload_digest: createHash("sha256").update("payload").digest(),
};
const session = {
  verifier_id: "conn-1",
  workspace_id: "acct-1",
  agent_id: "agent-1",
  session_id: "sess-1",
  invocation_id: "inv-1",
  request_hash: requestHash(operation),
};

/** An independent Python program (hashlib and struct) computed the expected values from wire format §4. */
describe("context binding", () => {
  test("gives the expected hash for an operation", () => {
    expect(hex(requestHash(operation))).toBe(
      "72fda1f5901533a847fc8c2027b2dd81fe9855e7bf14bf0733382fd8d891a801",
    );
  });

  test("gives the expected hash for a session", () => {
    expect(hex(sessionContext(session))).toBe(
      "ddfb2842de293096cd1b2e5cbee84396160203887b16b518a52a5c07ae09a58d",
    );
  });

  test("treats absent fields as empty", () => {
    expect(hex(requestHash({}))).toBe("d135e239f4a5a5a0ad6385b204d6c81f3c10e6b2f5debfa3cc8079488970f82f");
    expect(hex(sessionContext({}))).toBe("4063de4d406dc36a25d7317db31cf0cb897481f5b2add74f1a9875c0eccdf903");
    expect(hex(requestHash({ required_scope: "", payload_digest: new Uint8Array() }))).toBe(
      hex(requestHash({})),
    );
  });

  test.each(["required_scope", "operation", "resource_id", "requested_path"] as const)(
    "depends on %s",
    (name) => {
      expect(hex(requestHash({ ...operation, [name]: `${operation[name]}x` }))).not.toBe(
        hex(requestHash(operation)),
      );
    },
  );

  test.each(["verifier_id", "workspace_id", "agent_id", "session_id", "invocation_id"] as const)(
    "depends on %s",
    (name) => {
      expect(hex(sessionContext({ ...session, [name]: `${session[name]}x` }))).not.toBe(
        hex(sessionContext(session)),
      );
    },
  );

  test("depends on the boundaries between fields", () => {
    expect(hex(requestHash({ required_scope: "ab", operation: "c" }))).not.toBe(
      hex(requestHash({ required_scope: "a", operation: "bc" })),
    );
  });

  test.each([1, 31, 33])("rejects a digest of %d bytes", (length) => {
    const refused = expect.objectContaining({ code: "wrong_length" });
    expect(() => requestHash({ payload_digest: Buffer.alloc(length) })).toThrow(refused);
    expect(() => sessionContext({ request_hash: Buffer.alloc(length) })).toThrow(refused);
  });

  test("rejects text with a lone surrogate", () => {
    expect(() => requestHash({ operation: "\ud800" })).toThrow(
      expect.objectContaining({ code: "invalid_utf8" }),
    );
  });
});
