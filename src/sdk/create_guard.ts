import { type Authority, type Authorization, grantAuthority, receiptIdOf, refused } from "./authority.ts";
import { type Challenge, createChallenges } from "./challenges.ts";
import { systemClock } from "./clock.ts";
import { errorCodeOf, type Refusal, type Ruling, rule } from "./enforcement.ts";
import { faultOf, isRefusedKey } from "./faults.ts";
import type { Verifier } from "./operation.ts";
import { createOutcomeReporter } from "./outcomes.ts";
import { type AcceptedPrincipals, readPrincipals } from "./principals.ts";
import { type AuthorizeCall, type Question, questionOf, readCall } from "./question.ts";
import {
  type Asked,
  type Cause,
  refusalRecord,
  type VerificationRecord,
  verificationRecord,
} from "./record.ts";
import { type Exchange, exchange } from "./service/exchange.ts";
import { createLookUp, OWN_KEY_PATH, readObject, readOwnKey } from "./service/own_key.ts";
import { type GuardSettings, readGuardSettings } from "./settings.ts";

/** The result of a guarded action. */
export type Run<T> =
  | { readonly executed: true; readonly value: T; readonly authority: Authority }
  | { readonly executed: false; readonly refusal: Refusal; readonly record: VerificationRecord };

/** Protects code, and runs it only after an explicit `allow` decision. */
export type Guard = {
  /**
   * Calls verify once and applies the enforcement table. Rejects with TypeError if the application passed
   * invalid arguments. Any fault of the request, the service or the network is a refusal, not an error.
   */
  authorize(call: AuthorizeCall): Promise<Authorization>;
  /**
   * Runs `action` with the frozen copy of the payload if the action is allowed, and then reports `executed`.
   * If `action` throws, reports `failed` and rethrows the error. An action that refuses for its own reasons
   * must report that before it returns: `authority.report("refused_by_receiver")`.
   */
  run<T>(
    call: AuthorizeCall,
    action: (payload: unknown, authority: Authority) => T | Promise<T>,
  ): Promise<Run<T>>;
  /**
   * Returns a challenge of the guard's own connection, for an agent that has another API key. `address` is
   * the IP address of the caller. Returns `undefined` beyond `challengesPerSecond`, or if the service returns
   * no challenge.
   */
  challenge(address?: string): Promise<Challenge | undefined>;
  /** Waits until all outcomes are reported or given up. Call it before the process exits. */
  flush(): Promise<void>;
  /** Returns the lower-case name of a service header, such as `x-service-proof` for `proof`. */
  header(name: string): string;
};

/** Creates a guard. Throws TypeError for invalid settings. Does not connect before the first call. */
export function createGuard(guardSettings: GuardSettings): Guard {
  const settings = readGuardSettings(guardSettings);
  const outcomes = createOutcomeReporter(settings);

  function send(path: string, key: string, body?: string): Promise<Exchange> {
    const { agent, timeoutMs } = settings;
    const headers = { [settings.header("api-key")]: key };
    return exchange({ url: settings.address(path), headers, body, agent, timeoutMs });
  }

  const ownVerifier = createLookUp(async (key): Promise<Verifier> => {
    const answered = await send(OWN_KEY_PATH, key);
    const status = answered.answered ? answered.status : undefined;
    const own = answered.answered && status === 200 ? readOwnKey(readObject(answered.body)) : undefined;
    if (own !== undefined) return own.verifier;
    const code = answered.answered ? errorCodeOf(readObject(answered.body)) : undefined;
    settings.onFault(
      isRefusedKey(status) ? { kind: "key_refused", status, code } : { kind: "verifier_not_read", status },
    );
    throw new Error("the service did not name the verifier");
  });

  async function retain(record: VerificationRecord): Promise<boolean> {
    try {
      await settings.retain(record);
      return true;
    } catch (error) {
      settings.onFault({ kind: "record_not_retained", error });
      return false;
    }
  }

  async function refuse(asked: Asked, cause: Cause, ruling?: Ruling): Promise<Authorization> {
    const record = refusalRecord(asked, cause, ruling);
    await retain(record);
    return refused(record);
  }

  /** Returns the reason why the guard must not act on an `allow` decision, if there is one. */
  async function principalFault(
    { answer: { human_id: humanId } }: Ruling,
    rules: readonly (AcceptedPrincipals | undefined)[],
  ): Promise<Cause | undefined> {
    try {
      for (const rule of rules) {
        const accepted = await rule?.();
        if (accepted === undefined || (typeof humanId === "string" && accepted.has(humanId))) continue;
        return "principal_not_accepted";
      }
      return undefined;
    } catch (error) {
      settings.onFault({ kind: "principals_not_read", error });
      return "principals_not_read";
    }
  }

  function reportOf({ operation }: Question, { answer }: Ruling): Authority["report"] {
    const receiptId = receiptIdOf(answer);
    let isReported = false;
    return (outcome, detail) => {
      if (isReported || operation === undefined || receiptId === undefined) return;
      isReported = true;
      const { invocation_id: invocationId } = operation;
      outcomes.report({ invocationId, receiptId, outcome, detail, occurredAt: systemClock.now() });
    };
  }

  async function allow(
    asked: Asked & Question,
    ruling: Ruling,
    own: AcceptedPrincipals | undefined,
  ): Promise<Authorization> {
    const report = reportOf(asked, ruling);
    const fault = await principalFault(ruling, [settings.principals, own]);
    if (fault !== undefined) {
      report("not_attempted", fault);
      return refuse(asked, fault, ruling);
    }
    const record = verificationRecord(asked, "allow", ruling);
    const authority = grantAuthority(record, asked, report);
    if (await retain(record)) return Object.freeze({ allowed: true, authority });
    report("not_attempted", "the record of the verification was not retained");
    return refused(refusalRecord(asked, "record_not_retained", ruling));
  }

  /** Returns the call of verify, or the cause why the guard does not make it. */
  async function prepare(call: AuthorizeCall) {
    const read = readCall(call);
    if ("cause" in read) return read;
    const key = keyOf(settings.apiKey);
    if (key === undefined) return { cause: "no_api_key" as const, requiredScope: read.requiredScope };
    const verifier =
      settings.verifier ?? (read.bound && (await ownVerifier(key).catch(() => "verifier_not_read" as const)));
    if (verifier === "verifier_not_read") return { cause: verifier, requiredScope: read.requiredScope };
    return { ...questionOf(read, verifier), key };
  }

  async function authorize(call: AuthorizeCall): Promise<Authorization> {
    const askedAt = systemClock.now().toISOString();
    const principals = readPrincipals(call.principals);
    const question = await prepare(call);
    if ("cause" in question) {
      const isUnread = question.cause === "unbindable_payload" && call.unreadBody === true;
      if (isUnread) settings.onFault({ kind: "body_not_read", request: call.request });
      return refuse({ ...question, askedAt }, question.cause);
    }
    const asked = { ...question, askedAt };
    const ruling = rule(await send("verify", question.key, question.body));
    const fault = faultOf(ruling, { ...question, described: call.described, request: call.request });
    if (fault !== undefined) settings.onFault(fault);
    if (ruling.finding !== "allow") return refuse(asked, ruling.finding, ruling);
    const isReplay = question.operation !== undefined && ruling.answer.replayed === true;
    if (isReplay && settings.replays === "refuse") return refuse(asked, "replayed", ruling);
    return allow(asked, ruling, principals);
  }

  return {
    authorize,
    async run(call, action) {
      const authorization = await authorize(call);
      if (!authorization.allowed) {
        return { executed: false, refusal: authorization.refusal, record: authorization.record };
      }
      const { authority } = authorization;
      try {
        const value = await action(authority.payload, authority);
        authority.report("executed");
        return { executed: true, value, authority };
      } catch (error) {
        authority.report("failed", error instanceof Error ? error.name : undefined);
        throw error;
      }
    },
    challenge: createChallenges(settings, () => keyOf(settings.apiKey)),
    flush: outcomes.flush,
    header: settings.header,
  };
}

function keyOf(apiKey: () => string): string | undefined {
  try {
    const key = apiKey();
    return typeof key === "string" && key !== "" ? key : undefined;
  } catch {
    return undefined;
  }
}
