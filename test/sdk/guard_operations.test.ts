import { createHash } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import type { GuardFault, VerificationRecord } from "../../src/sdk/guard.ts";
import {
  ALLOW,
  call,
  guardedWorld,
  noDecision,
  operation,
  RECEIPT,
  requiredScope,
  verifier,
} from "./guarded.ts";
import { answering, answeringBoth } from "./stub_service.ts";

const world = guardedWorld();
const { guardWith, sentBodies } = world;

describe("an operation", () => {
  const lp = (value: string | Buffer) => {
    const bytes = Buffer.from(value as string);
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(bytes.length));
    return Buffer.concat([length, bytes]);
  };
  const sha = (...parts: (string | Buffer)[]) => {
    const hash = createHash("sha256");
    for (const part of parts) hash.update(part);
    return hash.digest();
  };
  const hex = (bytes: Buffer) => `sha256:${bytes.toString("hex")}`;

  test.each([
    [
      "of plain data, hashed as canonical JSON",
      { b: [1, "é"], a: null, c: undefined },
      Buffer.from('{"a":null,"b":[1,"é"]}'),
    ],
    ["of bytes, hashed unchanged", Buffer.from([0, 255]), Buffer.from([0, 255])],
    ["of text, hashed as JSON", "pay", Buffer.from('"pay"')],
    ["that is absent", undefined, undefined],
  ])("makes the guard send the wire format's hashes for a payload %s", async (_name, payload, bytes) => {
    await guardWith({ verifier }).authorize({ ...call, operation, payload });
    const digest = bytes === undefined ? Buffer.alloc(0) : sha(bytes);
    const expected = sha(
      "ratify/operation-context/v1",
      ...[requiredScope, "refund", "order-7", "/orders/7/refund?fast=1"].map(lp),
      lp(digest),
    );
    expect(sentBodies()[0]?.operation).toEqual({
      verifier_id: "connection-1",
      workspace_id: "account-1",
      agent_id: "aa",
      action: "refund",
      resource_id: "order-7",
      requested_path: "/orders/7/refund?fast=1",
      session_id: "s-1",
      invocation_id: "inv-1",
      request_hash: hex(expected),
      ...(bytes === undefined ? {} : { payload_digest: hex(digest) }),
    });
  });

  test("contains the digest of the payload that the action receives, even if the caller changes the original object later", async () => {
    const payload = { amount: 5 };
    const running = guardWith({ verifier }).run({ ...call, operation, payload }, (given) => given);
    payload.amount = 500;
    const run = await running;
    expect(run).toMatchObject({ executed: true, value: { amount: 5 } });
    const sent = sentBodies()[0]?.operation as Record<string, string>;
    expect(sent.payload_digest).toBe(hex(sha('{"amount":5}')));
  });

  test("has empty values for members that the application omits, and can name an agent if the proof names none", async () => {
    const bare = { action: "refund", invocationId: "inv-1", agentId: "cc", actionProfile: "p" };
    await guardWith({ verifier }).authorize({ requiredScope, proof: { proof_ref: "AQ" }, operation: bare });
    expect(sentBodies()[0]?.operation).toMatchObject({
      agent_id: "cc",
      resource_id: "",
      requested_path: "",
      session_id: "",
      action_profile: "p",
    });
  });

  test("determines the resource and the path, without its query, that constraints are compared with", async () => {
    const place = { resource_id: "order-7", path: "/orders/7/refund" };
    const guard = guardWith({ verifier });
    await guard.authorize({ ...call, operation });
    await guard.authorize({ ...call, operation, context: { ...place, amount: 5, currency: "EUR" } });
    expect(sentBodies().map(({ context }) => context)).toEqual([
      place,
      { ...place, amount: 5, currency: "EUR" },
    ]);
    for (const context of [{ resource_id: "order-8" }, { path: "/orders/8/refund" }]) {
      await expect(guard.authorize({ ...call, operation, context })).rejects.toThrow(TypeError);
    }
    expect(sentBodies()).toHaveLength(2);
  });

  test("does not run again after an earlier allow decision, unless the application permits replays", async () => {
    world.stub.respond(answeringBoth(answering(200, { ...ALLOW, replayed: true }), answering(200, {})));
    const action = vi.fn();
    const refused = await guardWith({ verifier }).run({ ...call, operation }, action);
    expect(refused).toMatchObject({
      executed: false,
      refusal: { status: 403, code: "invocation_replayed" },
      record: { cause: "replayed", answer: { decision: "allow" } },
    });
    expect(action).not.toHaveBeenCalled();
    const again = await guardWith({ verifier, replays: "execute" }).run({ ...call, operation }, action);
    expect(again.executed).toBe(true);
    expect(action).toHaveBeenCalledOnce();
  });
});

describe("the authority of the action", () => {
  test("contains the ids of agent and human, and is frozen", async () => {
    const run = await guardWith({ verifier }).run({ ...call, operation }, (_payload, authority) => authority);
    const authority = run.executed ? run.value : undefined;
    expect(authority).toMatchObject({
      requiredScope,
      agentId: "aa",
      humanId: "bb",
      certId: "cert-1",
      grantedScope: ["payments:send"],
      receiptId: RECEIPT.receipt_id,
      receiptHash: "sha256:00",
      operation: { invocation_id: "inv-1" },
    });
    for (const part of [authority, authority?.grantedScope, authority?.operation, authority?.record.answer]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });

  test("contains only values that the service sent, with their expected types", async () => {
    world.stub.respond(
      answering(200, { decision: "allow", agent_id: 5, granted_scope: "all", receipt: "x" }),
    );
    const run = await guardWith().run(call, (_payload, authority) => authority);
    expect(run).toMatchObject({
      executed: true,
      value: { agentId: undefined, humanId: undefined, grantedScope: [], receiptId: undefined },
    });
  });
});

describe("the record of a verification", () => {
  test("reaches the application before the action runs, with the whole response and without secrets", async () => {
    const order: string[] = [];
    const records: VerificationRecord[] = [];
    const retain = async (record: VerificationRecord) => {
      await new Promise((resolve) => setImmediate(resolve));
      records.push(record);
      order.push("retained");
    };
    await guardWith({ retain, verifier }).run({ ...call, operation, payload: { iban: "DE1" } }, () =>
      order.push("ran"),
    );
    expect(order).toEqual(["retained", "ran"]);
    expect(records[0]).toMatchObject({ cause: "allow", status: 200, requiredScope, refusal: undefined });
    expect(records[0]?.answer).toEqual(ALLOW);
    expect(JSON.stringify(records)).not.toMatch(/dpz_key|DE1|challenge/);
  });

  test("reaches the application even for refusals", async () => {
    const causes: string[] = [];
    const guard = guardWith({ retain: ({ cause }) => causes.push(cause) });
    await guard.authorize({ requiredScope, proof: undefined });
    world.stub.respond(answering(400, { error: { code: "invalid_challenge" } }));
    await guard.authorize(call);
    world.stub.respond((socket) => socket.destroy());
    await guard.authorize(call);
    expect(causes).toEqual(["no_proof", "bad_proof", "network"]);
  });

  test("prevents an allowed action if it cannot be stored, and does not change a refusal", async () => {
    const faults: GuardFault[] = [];
    const error = new Error("disk full");
    const guard = guardWith({
      verifier,
      onFault: (fault) => faults.push(fault),
      retain: () => {
        throw error;
      },
    });
    const action = vi.fn();
    const run = await guard.run({ ...call, operation }, action);
    expect(run).toMatchObject({
      executed: false,
      refusal: noDecision,
      record: { cause: "record_not_retained" },
    });
    expect(action).not.toHaveBeenCalled();
    expect(faults).toEqual([{ kind: "record_not_retained", error }]);
    await guard.flush();
    expect(sentBodies()[1]).toMatchObject({ outcome: "not_attempted", receipt_id: RECEIPT.receipt_id });
    world.stub.respond(answering(200, { decision: "deny", decision_reason: "not_delegated" }));
    expect(await guard.run(call, action)).toMatchObject({ refusal: { status: 403, code: "not_delegated" } });
  });
});
