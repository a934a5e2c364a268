import { randomBytes, randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { z } from "zod";
import { type ErrorCode, errorCodes } from "../../src/errors.ts";
import type { ObjectPlace } from "../../src/input/cluster_fields.ts";
import type {
  DelegationState,
  DesiredPlatform,
  operatorCalls,
  PlatformAnswer,
} from "../../src/operator_calls.ts";
import { coversScopes, invalidScopes } from "../../src/protocol/documents/scopes.ts";

type Calls = typeof operatorCalls;
type BodyOf<Name extends keyof Calls> = Calls[Name] extends { body: z.ZodType }
  ? z.output<Calls[Name]["body"]>
  : undefined;
type AnswerOf<Name extends keyof Calls> = z.output<Calls[Name]["answer"]["schema"]>;

/** One handler for each call of the contract. A handler receives the object's ID and the call's body. */
export type Handlers = { [Name in keyof Calls]: (id: string, body: BodyOf<Name>) => AnswerOf<Name> };

export type FakeAccount = { onboarded: boolean; platformLimit: number };
export type FakePlatform = {
  accountEmail: string;
  desired: DesiredPlatform;
  platform_id: string;
  connection_id: string;
  verifier_id: string;
  api_key: string;
  api_key_prefix: string;
  api_key_issued_at: string;
  rotation_request: string | null;
  signing_secret: string;
  webhook_signing_secret: string;
  callback_url: string | null;
  redirect_uris: string[];
  publish_state: string;
  customers: number;
  undelivered: boolean;
  removed: boolean;
  retired: { prefix: string; graceSeconds: number }[];
};
export type FakeAgent = {
  agent_id: string;
  name: string;
  agent_type: string;
  platform: string;
  object: ObjectPlace;
  disabled: boolean;
  /** The key of the agent's object. */
  key: FakeAgentKey | null;
  ended: { prefix: string; graceSeconds: number }[];
};
export type FakeAgentKey = ReturnType<typeof newKey> & { rotation_request: string | null };
export type FakeDelegation = DelegationState & {
  platform: string;
  agent: string;
  desired: BodyOf<"putDelegation">;
};

export class Refusal extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode) {
    super(`fake: ${errorCodes[code][1]}`);
    this.code = code;
  }
}

export type FakeRegistry = {
  /** The API's clock minus this machine's. */
  clock: { shiftMs: number };
  /** Whether the API is one version older, and does not know keys of agents. */
  version: { isFormer: boolean };
  leader: { epoch: number };
  accounts: Map<string, FakeAccount>;
  platforms: Map<string, FakePlatform>;
  agents: Map<string, FakeAgent>;
  delegations: Map<string, FakeDelegation>;
  handlers: Handlers;
};

/** Moves the first matching entry to the new ID: a recreated object adopts what its predecessor left. */
function adopted<T>(entries: Map<string, T>, id: string, isIt: (entry: T) => boolean): T | undefined {
  const [found] = [...entries].filter(([, entry]) => isIt(entry));
  if (found === undefined) return undefined;
  entries.delete(found[0]);
  entries.set(id, found[1]);
  return found[1];
}

function isLeftBehind({ removed, desired }: FakePlatform, body: BodyOf<"putPlatform">): boolean {
  return (
    !removed && desired.account_email === body.account_email && isDeepStrictEqual(desired.object, body.object)
  );
}

/** Creates an empty registry that follows the API's rules. */
export function createFakeRegistry(): FakeRegistry {
  const clock = { shiftMs: 0 };
  const version = { isFormer: false };
  const leader = { epoch: 0 };
  const accounts = new Map<string, FakeAccount>();
  const platforms = new Map<string, FakePlatform>();
  const agents = new Map<string, FakeAgent>();
  const delegations = new Map<string, FakeDelegation>();

  function livePlatform(id: string): FakePlatform {
    const platform = platforms.get(id);
    if (platform === undefined || platform.removed) throw new Refusal("not_found");
    return platform;
  }

  function findAccount(email: string): FakeAccount {
    const account = accounts.get(email);
    if (account === undefined) throw new Refusal("namespace_not_bound");
    if (!account.onboarded) throw new Refusal("onboarding_incomplete");
    return account;
  }

  function register(id: string, desired: DesiredPlatform, account: FakeAccount): FakePlatform {
    const owned = [...platforms.values()].filter(
      (platform) => platform.accountEmail === desired.account_email && !platform.removed,
    );
    if (owned.length >= account.platformLimit) throw new Refusal("platform_limit");
    const platform: FakePlatform = {
      accountEmail: desired.account_email,
      desired,
      platform_id: randomUUID(),
      connection_id: randomUUID(),
      verifier_id: `verifier of ${desired.name}`,
      ...newKey(),
      rotation_request: null,
      signing_secret: randomBytes(16).toString("hex"),
      webhook_signing_secret: randomBytes(16).toString("hex"),
      callback_url: desired.callback_url ?? null,
      redirect_uris: desired.redirect_uris ?? [],
      publish_state: "draft",
      customers: 0,
      removed: false,
      retired: [],
    };
    platforms.set(id, platform);
    return platform;
  }

  const handlers: Handlers = {
    claimLeadership() {
      leader.epoch += 1;
      return { epoch: leader.epoch, former_epoch: leader.epoch === 1 ? null : leader.epoch - 1 };
    },

    putPlatform(id, body) {
      const account = findAccount(body.account_email);
      checkRegistration(body);
      const known = platforms.get(id) ?? adopted(platforms, id, (each) => isLeftBehind(each, body));
      const desired: DesiredPlatform = {
        ...body,
        description: body.description ?? "",
        accepted_principals: body.accepted_principals ?? known?.desired.accepted_principals ?? [],
      };
      if (known === undefined) return platformAnswer(register(id, desired, account));
      if (known.removed || known.accountEmail !== desired.account_email) {
        throw new Refusal("external_conflict");
      }
      if (coversScopes(known.desired.default_allowed_scopes, desired.default_allowed_scopes).length > 0) {
        throw new Refusal("ceiling_widened");
      }
      known.desired = desired;
      if (desired.callback_url !== undefined) known.callback_url = desired.callback_url;
      if (desired.redirect_uris !== undefined) known.redirect_uris = desired.redirect_uris;
      return platformAnswer(known);
    },

    acknowledgeCredentials(id, { api_key_prefix }) {
      const platform = livePlatform(id);
      if (platform.api_key_prefix !== api_key_prefix) throw new Refusal("external_conflict");
      platform.undelivered = false;
      return { acknowledged: true };
    },

    rotateCredentials(id, body) {
      const platform = livePlatform(id);
      platform.retired.push({ prefix: platform.api_key_prefix, graceSeconds: body?.grace_seconds ?? 0 });
      Object.assign(platform, newKey());
      if (body?.request !== undefined) platform.rotation_request = body.request;
      return platformAnswer(platform);
    },

    removePlatform(id) {
      const platform = platforms.get(id);
      if (platform !== undefined) platform.removed = true;
      for (const delegation of delegations.values()) {
        if (delegation.platform === id && delegation.status === "approved") delegation.status = "revoked";
      }
      return { removed: true };
    },

    putAgent(id, { platform_external_id, name, agent_type, object }) {
      livePlatform(platform_external_id);
      const known =
        agents.get(id) ??
        adopted(agents, id, (each) => !each.disabled && isDeepStrictEqual(each.object, object));
      if (known !== undefined && known.agent_type !== agent_type) throw new Refusal("external_conflict");
      if (known !== undefined) Object.assign(known, { name, platform: platform_external_id });
      const agent = known ?? {
        agent_id: randomBytes(16).toString("hex"),
        name,
        agent_type,
        platform: platform_external_id,
        object,
        disabled: false,
        key: null,
        ended: [],
      };
      agents.set(id, agent);
      const { platform: _, object: __, key: ___, ended: ____, ...shown } = agent;
      const public_key_json = { ed25519: `key of ${agent.agent_id}`, ml_dsa_65: "…" };
      return { ...shown, custody_mode: "custodial", public_key_json };
    },

    removeAgent(id) {
      const agent = agents.get(id);
      if (agent !== undefined) Object.assign(agent, { disabled: true, key: null });
      return { removed: true };
    },

    putAgentKey(id, { keep, grace_seconds, request = null }) {
      const agent = agents.get(id);
      if (agent === undefined || version.isFormer) throw new Refusal("not_found");
      if (agent.disabled) throw new Refusal("agent_disabled");
      const { connection_id } = livePlatform(agent.platform);
      if (agent.key !== null && agent.key.api_key_prefix === keep) agent.key.undelivered = false;
      else if (agent.key?.undelivered !== true) {
        endKey(agent, grace_seconds);
        agent.key = { ...newKey("dpza"), rotation_request: request };
      }
      const { undelivered, ...key } = agent.key as FakeAgentKey;
      return { agent_id: agent.agent_id, connection_id, ...key, api_key: undelivered ? key.api_key : null };
    },

    removeAgentKey(id) {
      const agent = agents.get(id);
      if (agent !== undefined) endKey(agent, 0);
      return { removed: true };
    },

    putDelegation(id, desired) {
      const { platform_external_id, agent_external_id, requested_scope } = desired;
      const known = delegations.get(id);
      if (known !== undefined) return delegationState(known);
      const platform = livePlatform(platform_external_id);
      const agent = agents.get(agent_external_id);
      if (agent === undefined) throw new Refusal("not_found");
      if (agent.disabled) throw new Refusal("agent_disabled");
      if (invalidScopes(requested_scope).length > 0) throw new Refusal("invalid_scopes");
      if (coversScopes(platform.desired.default_allowed_scopes, requested_scope).length > 0) {
        throw new Refusal("ceiling_exceeded");
      }
      const delegation: FakeDelegation = {
        platform: platform_external_id,
        agent: agent_external_id,
        desired,
        request_id: `req-${randomUUID()}`,
        status: "pending",
        reason: null,
        requested_scope,
        approved_scope: null,
        cert_id: null,
        issued_at: null,
        expires_at: null,
        decided_by: null,
      };
      delegations.set(id, delegation);
      return delegationState(delegation);
    },

    revokeDelegation(id, body) {
      const delegation = delegations.get(id);
      if (delegation === undefined) throw new Refusal("not_found");
      const ended = { pending: "withdrawn", approved: "revoked" } as const;
      if (delegation.status === "pending" || delegation.status === "approved") {
        Object.assign(delegation, { status: ended[delegation.status], reason: body?.reason ?? null });
      }
      return delegationState(delegation);
    },

    listDelegations: () => ({
      delegations: [...delegations].flatMap(([external_id, { status, desired }]) =>
        status === "pending" || status === "approved" ? [{ external_id, ...desired.object, status }] : [],
      ),
      next: null,
    }),

    decideDelegation(id) {
      const delegation = delegations.get(id);
      if (delegation === undefined) throw new Refusal("not_found");
      return delegationState(delegation);
    },

    readState(_, { external_ids }) {
      const pick = <V, R>(from: Map<string, V>, show: (value: V) => R) =>
        Object.fromEntries(
          external_ids.flatMap((id) => {
            const value = from.get(id);
            return value === undefined ? [] : [[id, show(value)]];
          }),
        );
      return {
        time: new Date(Date.now() + clock.shiftMs).toISOString(),
        platforms: pick(platforms, ({ platform_id, connection_id, verifier_id, removed, ...key }) => ({
          platform_id,
          connection_id,
          workspace_id: workspaceOf(key.accountEmail),
          verifier_id,
          publish_state: key.publish_state,
          customers: key.customers,
          api_key_prefix: removed ? null : key.api_key_prefix,
          api_key_issued_at: removed ? null : key.api_key_issued_at,
          rotation_request: key.rotation_request,
          removed,
        })),
        agents: pick(agents, ({ agent_id, disabled, key }) => ({ agent_id, disabled, ...storedKey(key) })),
        delegations: pick(delegations, delegationState),
      };
    },
  };

  function storedKey(key: FakeAgentKey | null) {
    if (version.isFormer) return {};
    if (key === null || key.undelivered) return { key: null };
    const { api_key: _, undelivered: __, ...stated } = key;
    return { key: stated };
  }

  return { clock, version, leader, accounts, platforms, agents, delegations, handlers };
}

function workspaceOf(email: string): string {
  return `account of ${email}`;
}

function checkRegistration(body: BodyOf<"putPlatform">): void {
  if (invalidScopes(body.default_allowed_scopes).length > 0) throw new Refusal("invalid_scopes");
  if (body.surface_type !== "agentic_api") throw new Refusal("surface_not_available");
  if (body.callback_url?.startsWith("http://")) throw new Refusal("invalid_callback_url");
}

/** Ends the key of an agent's object. A person does so in the console too. */
export function endKey(agent: FakeAgent, graceSeconds = 0): void {
  if (agent.key !== null) agent.ended.push({ prefix: agent.key.api_key_prefix, graceSeconds });
  agent.key = null;
}

function newKey(letters = "dpz") {
  const prefix = `${letters}_${randomBytes(4).toString("hex")}`;
  return {
    api_key: `${prefix}_${randomBytes(16).toString("hex")}`,
    api_key_prefix: prefix,
    api_key_issued_at: new Date().toISOString(),
    undelivered: true,
  };
}

function platformAnswer(platform: FakePlatform): PlatformAnswer {
  const { api_key, signing_secret, webhook_signing_secret, undelivered } = platform;
  return {
    platform_id: platform.platform_id,
    connection_id: platform.connection_id,
    workspace_id: workspaceOf(platform.accountEmail),
    verifier_id: platform.verifier_id,
    publish_state: platform.publish_state,
    customers: platform.customers,
    api_key_prefix: platform.api_key_prefix,
    api_key_issued_at: platform.api_key_issued_at,
    rotation_request: platform.rotation_request,
    default_allowed_scopes: platform.desired.default_allowed_scopes,
    callback_url: platform.callback_url,
    credentials: undelivered ? { api_key, signing_secret, webhook_signing_secret } : null,
  };
}

function delegationState({
  platform: _,
  agent: __,
  desired: ___,
  ...state
}: FakeDelegation): DelegationState {
  return state;
}
