import { describe, expect, test } from "vitest";
import {
  ALLOW,
  allowText,
  behaving,
  enforcementWorld,
  executed,
  noAuthority,
  noDecision,
  refusal,
} from "./enforced.ts";
import { answering, httpText, type StubBehaviour, startStub } from "./stub_service.ts";

const world = enforcementWorld();
const { act } = world;

describe("the enforcement table", () => {
  test.each<[string, StubBehaviour, object]>([
    ["200, allow", answering(200, ALLOW), executed],
    ["200, allow, and additional members", answering(200, { ...ALLOW, valid: true, checks: [] }), executed],
    [
      "200, allow, without a JSON content type",
      answering(200, ALLOW, { "content-type": "text/plain" }),
      executed,
    ],
    [
      "200, allow, in chunks",
      behaving((socket) => {
        const parts = [allowText.slice(0, 9), allowText.slice(9)];
        const chunks = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
        socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks.join("")}0\r\n\r\n`);
      }),
      executed,
    ],
    [
      "200, allow, ended by closing the connection",
      behaving((socket) => socket.end(`HTTP/1.1 200 OK\r\n\r\n${allowText}`)),
      executed,
    ],
    [
      "200, allow, after 100 Continue and 103 Early Hints",
      behaving((socket) =>
        socket.write(
          `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n${httpText(200, allowText)}`,
        ),
      ),
      executed,
    ],
    [
      "200, deny",
      answering(200, { decision: "deny", decision_reason: "delegation_revoked" }),
      refusal(403, "delegation_revoked", "deny"),
    ],
    ["200, deny without a reason", answering(200, { decision: "deny" }), refusal(403, "denied", "deny")],
    [
      "200, deny, with other members that contain allow",
      answering(200, { decision: "deny", decision_reason: "not_delegated", valid: true, allow: true }),
      refusal(403, "not_delegated", "deny"),
    ],
    [
      "200, indeterminate",
      answering(200, { decision: "indeterminate", decision_reason: "revocation_state_unavailable" }),
      noDecision("indeterminate"),
    ],
    ...[
      "ALLOW",
      "Allow",
      "allow ",
      " allow",
      "allowed",
      "permit",
      "",
      true,
      1,
      null,
      ["allow"],
      { allow: true },
    ].map((decision): [string, StubBehaviour, object] => [
      `200, the unrecognized decision ${JSON.stringify(decision)}`,
      answering(200, { decision }),
      noDecision("unknown_decision"),
    ]),
    ["200, no decision", answering(200, { valid: true }), noDecision("unknown_decision")],
    ...[
      "",
      "allow",
      '"allow"',
      "null",
      `[${allowText}]`,
      allowText.slice(0, -1),
      `${allowText}x`,
      `\ufeff${allowText}`,
      '{"decision":"deny","decision":"allow"}',
      '{"decision":"allow","n":01}',
      '{"decision":"allow",}',
      "{'decision':'allow'}",
      "<html>allow</html>",
    ].map((body): [string, StubBehaviour, object] => [
      `200, the unparseable body ${JSON.stringify(body)}`,
      answering(200, body),
      noDecision("unparseable"),
    ]),
    [
      "200, a body that is not UTF-8",
      behaving((socket) => {
        const body = Buffer.concat([
          Buffer.from('{"decision":"allow","x":"'),
          Buffer.from([0xff]),
          Buffer.from('"}'),
        ]);
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
        socket.write(body);
      }),
      noDecision("unparseable"),
    ],
    ["400", answering(400, { error: { code: "invalid_challenge", message: "", status: 400 } }), noAuthority],
    [
      "400, invalid_scope, which is not the caller's fault",
      answering(400, { error: { code: "invalid_scope", message: "", status: 400 } }),
      noDecision("invalid_scope"),
    ],
    [
      "400 with invalid_scope in the wrong member of the body",
      answering(400, { code: "invalid_scope", error: null }),
      noAuthority,
    ],
    ["400 with the decision allow", answering(400, ALLOW), noAuthority],
    ["400 with an empty body", answering(400, ""), noAuthority],
    ...[401, 402, 403, 404, 409, 418, 429, 500, 502, 503, 504, 599].map(
      (status): [string, StubBehaviour, object] => [
        `${status}, even if it says allow`,
        answering(status, ALLOW),
        noDecision("unexpected_status"),
      ],
    ),
    ...[201, 202, 203, 204, 205, 206, 226, 299].map((status): [string, StubBehaviour, object] => [
      `${status}, which is not 200, even if it says allow`,
      answering(status, status === 204 ? "" : ALLOW, status === 204 ? { "content-length": "0" } : {}),
      noDecision("unexpected_status"),
    ]),
  ])("determines what happens after the response %s", async (_name, behaviour, expected) => {
    world.stub.respond(behaviour);
    expect(await act()).toEqual(expected);
    expect(world.stub.requests).toHaveLength(1);
  });

  test.each([301, 302, 303, 307, 308])(
    "also applies to a redirect with %i, which is not followed",
    async (status) => {
      const other = await startStub(answering(200, ALLOW));
      world.stub.respond(answering(status, ALLOW, { location: `${other.url}/v1/service/verify` }));
      expect(await act()).toEqual(noDecision("unexpected_status"));
      expect(other.connections()).toBe(0);
      expect(world.stub.requests).toHaveLength(1);
      await other.stop();
    },
  );
});
