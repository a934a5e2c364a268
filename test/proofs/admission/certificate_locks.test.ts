import type { Pool } from "pg";
import { describe, expect, test, vi } from "vitest";
import { createCertificateLocks } from "../../../src/proofs/admission/certificate_rate.ts";
import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import { verifyProof } from "../../../src/proofs/verify/verify_proof.ts";
import type { ProofWorld } from "../../support/proof_world.ts";
import { placeOf } from "../decision_world.ts";
import { callerOf, now, verifyWorld } from "../verify_world.ts";

const service = verifyWorld();
const ratedAccount = () => service.account({ constraints: [{ type: "max_rate", count: 5, window_s: 3600 }] });

function countingOf({ accountId, certificate }: ProofWorld) {
  return { certificates: [{ accountId, certId: certificate.cert_id }], byOwner: true, now };
}

describe("exclusive access to a rate-limited certificate", () => {
  test("ends when the database connection is lost, and the next call starts on a new connection", async () => {
    const rated = await ratedAccount();
    const lockCertificates = createCertificateLocks(
      service.openPool("lost", { max: 1 }),
      placeOf(service.pool),
    );
    const lock = await lockCertificates(countingOf(rated));
    const waiting = lockCertificates(countingOf(rated));
    await service.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'lost'`,
    );
    await expect(lock.countAllows(rated.certificate.cert_id, 60)).rejects.toThrow();
    await lock.end();
    const next = await waiting;
    expect(await next.countAllows(rated.certificate.cert_id, 60)).toBe(0);
    await next.end();
  });

  test("fails if no database connection is available, and the next call starts", async () => {
    const rated = await ratedAccount();
    const pool = service.openPool("none", { max: 1 });
    vi.spyOn(pool, "connect").mockImplementationOnce(() => Promise.reject(new Error("no connection")));
    const lockCertificates = createCertificateLocks(pool, placeOf(service.pool));
    const [refused, waiting] = [lockCertificates(countingOf(rated)), lockCertificates(countingOf(rated))];
    await expect(refused).rejects.toThrow("no connection");
    await (await waiting).end();
  });

  test("returns the database connection if the certificate is locked for too long, and the next call starts", async () => {
    const rated = await ratedAccount();
    const lockCertificates = createCertificateLocks(
      service.openPool("held", { max: 1, lockMs: 50 }),
      placeOf(service.pool),
    );
    const text = "select from certificates where cert_id = $1 for update";
    const held = await service.hold(text, [rated.certificate.cert_id]);
    await expect(lockCertificates(countingOf(rated))).rejects.toMatchObject({ code: "55P03" });
    await held.commit();
    await (await lockCertificates(countingOf(rated))).end();
  });

  test("removes the database connection from the pool if the rollback fails", async () => {
    const failure = new Error("not undone");
    const query = async (text: unknown) => {
      if (text === "rollback") throw failure;
    };
    const release = vi.fn();
    const lockCertificates = createCertificateLocks(
      {
        connect: async () => ({ query, release }),
      } as unknown as Pool,
      placeOf(service.pool),
    );
    const lock = await lockCertificates({ certificates: [], byOwner: true, now });
    await lock.end();
    expect(release.mock.calls).toEqual([[failure]]);
  });

  test("returns the database connection before the next call takes a connection", async () => {
    let taken = 0;
    let most = 0;
    const query = () => new Promise((resolve) => setImmediate(resolve));
    const release = () => {
      taken -= 1;
    };
    const connect = async () => {
      taken += 1;
      most = Math.max(most, taken);
      return { query, release };
    };
    const lockCertificates = createCertificateLocks({ connect } as unknown as Pool, placeOf(service.pool));
    const locks = Array.from({ length: 5 }, () => lockCertificates({ certificates: [], byOwner: true, now }));
    for (const lock of locks) await (await lock).end();
    expect([most, taken]).toEqual([1, 0]);
  });

  test.each(["countAllows", "decide"] as const)("ends if the function %s fails", async (part) => {
    const rated = await ratedAccount();
    const parts = { countAllows: async () => 0, decide: service.deps.decide, end: vi.fn(async () => {}) };
    const lock = { ...parts, [part]: () => Promise.reject(new Error("cut off")) };
    const body = { proof_bundle: await rated.prove({ now }), required_scope: "data:read" };
    const call = readVerifyCall(callerOf(rated), Buffer.from(JSON.stringify(body)), undefined);
    const verifying = verifyProof({ ...service.deps, lockCertificates: async () => lock }, call);
    await expect(verifying).rejects.toThrow("cut off");
    expect(parts.end).toHaveBeenCalledOnce();
  });
});
