import { expect, test } from "vitest";
import { Surprise } from "../../../src/dev/tour/calls.ts";
import {
  type FolderWorld,
  keptDelegation,
  recallKeptDelegation,
} from "../../../src/dev/tour/kept_delegation.ts";
import type { ObjectState } from "../../../src/dev/tour/quickstart.ts";
import type { QuickstartFolder } from "../../../src/dev/tour/quickstart_folder.ts";
import type { TourState } from "../../../src/dev/tour/steps.ts";

type File = Awaited<ReturnType<QuickstartFolder["delegationFile"]>>;

const scopes = ["data:read", "payments:send", "custom:orders:refund"];
const active = { certID: "cert-old", approvedScope: ["data:read"] };

function objectState(reason: string, status: ObjectState["status"] = {}): ObjectState {
  return { ready: reason === "Active", stalled: reason === "Suspended", reason, status };
}

/** The delegation first has the state `now`. Once the step declares it again, it has a pending request. */
function worldOf(file: File, now: ObjectState, request: object = { status: "pending" }) {
  let current = now;
  const done: string[] = [];
  const quickstart: Pick<QuickstartFolder, "delegationFile" | "renewDelegation" | "objectState" | "explain"> =
    {
      delegationFile: async () => file,
      async renewDelegation() {
        done.push("renewed");
        current = objectState("AwaitingApproval", { requestID: "req-new" });
      },
      objectState: async () => current,
      explain: async () => `Ready=False, ${current.reason}: in the operator's words`,
    };
  const call = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    done.push(`${method} ${path}`);
    if (method === "GET") return { requested_scope: scopes, cert_id: null, approved_scope: null, ...request };
    const { approved_scope } = body as { approved_scope: string[] };
    return { cert_id: "cert-new", status: "approved", approved_scope };
  };
  return {
    world: { quickstart, patience: { statusMs: 30_000, eventMs: 1 } } as FolderWorld,
    state: { person: { email: "owner@example.test", call } } as TourState,
    done,
  };
}

const approved = (request: string) => [
  `GET /v1/service/delegations/requests/${request}`,
  `POST /v1/service/delegations/requests/${request}/approve`,
];

test("keptDelegation keeps an active delegation with its scopes", async () => {
  const { world, state, done } = worldOf("edited", objectState("Active", active));
  expect(await keptDelegation.run(world, state)).toBe("cert-old still grants data:read");
  expect(state).toMatchObject({ certId: "cert-old", granted: ["data:read"] });
  expect(done).toEqual([]);
});

test("keptDelegation approves a waiting delegation with fewer scopes than requested", async () => {
  const pending = objectState("AwaitingApproval", { requestID: "req-1" });
  const { world, state, done } = worldOf("edited", pending);
  expect(await keptDelegation.run(world, state)).toBe("cert-new grants data:read, payments:send");
  expect(state).toMatchObject({ certId: "cert-new", granted: ["data:read", "payments:send"] });
  expect(done).toEqual(approved("req-1"));
});

test("keptDelegation keeps a delegation that was approved before the operator wrote its status", async () => {
  const pending = objectState("AwaitingApproval", { requestID: "req-1" });
  const decided = { status: "approved", cert_id: "cert-old", approved_scope: ["data:read"] };
  const { world, state, done } = worldOf("edited", pending, decided);
  expect(await keptDelegation.run(world, state)).toBe("cert-old grants data:read");
  expect(state).toMatchObject({ certId: "cert-old", granted: ["data:read"] });
  expect(done).toEqual(["GET /v1/service/delegations/requests/req-1"]);
});

test.each(["Denied", "Revoked", "Expired"])(
  "keptDelegation requests the example's delegation again after %s, and approves it",
  async (how) => {
    const { world, state, done } = worldOf("example", objectState(how, active));
    expect(await keptDelegation.run(world, state)).toBe("cert-new grants data:read, payments:send");
    expect(state.certId).toBe("cert-new");
    expect(done).toEqual(["renewed", ...approved("req-new")]);
  },
);

test.each(["Denied", "Revoked", "Expired"])(
  "keptDelegation leaves an edited delegation unchanged after %s",
  async (how) => {
    const { world, state, done } = worldOf("edited", objectState(how, active));
    expect(await keptDelegation.run(world, state)).toBe(
      `left as it is: Ready=False, ${how}: in the operator's words`,
    );
    expect(state.certId).toBe("");
    expect(done).toEqual([]);
  },
);

test.each([
  ["not requested", {}],
  ["requested, not decided", { requestID: "req-1" }],
])(
  "keptDelegation does not approve a suspended delegation (%s), and reports the operator's message",
  async (_, status) => {
    const { world, state, done } = worldOf("edited", objectState("Suspended", status));
    const thrown = await keptDelegation.run(world, state).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(Surprise);
    expect((thrown as Surprise).message).toBe("Ready=False, Suspended: in the operator's words");
    expect(state.certId).toBe("");
    expect(done).toEqual([]);
  },
);

test("keptDelegation does not restore a deleted delegation.yaml", async () => {
  const { world, state, done } = worldOf("missing", objectState("Active", active));
  expect(await keptDelegation.run(world, state)).toContain("delegation.yaml is gone");
  expect(state.certId).toBe("");
  expect(done).toEqual([]);
});

test.each([
  ["Active", "cert-old", ["data:read"]],
  ["Suspended", "", []],
  ["Revoked", "", []],
])(
  "after an interrupted tour, a delegation with reason %s has the certificate ID %j",
  async (reason, certId, granted) => {
    const { world, state } = worldOf("edited", objectState(reason, active));
    await recallKeptDelegation(world, state);
    expect(state).toMatchObject({ certId, granted });
  },
);
