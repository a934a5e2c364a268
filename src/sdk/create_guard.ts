import { type Authority, type Authorization, grantAuthority, receiptIdOf, refused } from "./authority.ts";
import { systemClock } from "./clock.ts";
import { type Refusal, type Ruling, rule } from "./enforcement.ts";
import { post } from "./exchange.ts";
import { createOutcomeReporter } from "./outcomes.ts";
import { type AuthorizeCall, type Question, readQuestion } from "./question.ts";
import {
  type Asked,
  type Cause,
  refusalRecord,
  type VerificationRecord,
  verificationRecord,
} from "./record.ts";
import { type GuardSettings, readSettings } from "./settings.ts";

/** The result of a guarded action. */
export type Run<T> =
  | { readonly executed: true; readonly value: T; readonly authority: Authority }
  | { readonly executed: false; readonly refusal: Refusal; readonly record: VerificationRecord };

/** Stands in front of protected code, and lets it run only on an explicit allow. */
export type Guard = {
  /**
   * Asks verify, once, and rules by the enforcement table. Rejects with TypeError for a call that is the
   * application's own fault; whatever a request, the service or the network does is a refusal.
   */
  authorize(call: AuthorizeCall): Promise<Authorization>;
  /**
   * Runs `action` on the frozen copy of the payload if it is allowed, and reports `executed`, or `failed`
   * when it throws; what it throws is thrown on. An action that refuses by itself says so first:
   * `authority.report("refused_by_receiver")`.
   */
  run<T>(
    call: AuthorizeCall,
    action: (payload: unknown, authority: Authority) => T | Promise<T>,
  ): Promise<Run<T>>;
  /** Waits for the outcomes that are being reported. To be called before the process ends. */
  flush(): Promise<void>;
  /** Lower-case name of a header of the service's, such as `x-service-proof` for `proof`. */
  header(name: string): string;
};

/**
 * A guard with its own settings. Throws TypeError for settings that no guard can work with. Opens nothing
 * until it is asked.
 */
export function createGuard(guardSettings: GuardSettings): Guard {
  const settings = readSettings(guardSettings);
  const outcomes = createOutcomeReporter(settings);

  async function ask({ body }: Question): Promise<Ruling | undefined> {
    const key = keyOf(settings.apiKey);
    if (key === undefined) return undefined;
    const { agent, timeoutMs } = settings;
    const headers = { [settings.header("api-key")]: key };
    return rule(await post({ url: settings.address("verify"), headers, body, agent, timeoutMs }));
  }

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

  /** Why the authority of an allow is not acted on; nothing when its principal is accepted. */
  async function principalFault({ answer: { human_id: humanId } }: Ruling): Promise<Cause | undefined> {
    if (settings.principals === undefined) return undefined;
    try {
      const accepted = await settings.principals();
      return typeof humanId === "string" && accepted.has(humanId) ? undefined : "principal_not_accepted";
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

  async function allow(asked: Asked & Question, ruling: Ruling): Promise<Authorization> {
    const report = reportOf(asked, ruling);
    const fault = await principalFault(ruling);
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

  async function authorize(call: AuthorizeCall): Promise<Authorization> {
    const askedAt = systemClock.now().toISOString();
    const question = readQuestion(call, settings.verifier);
    if ("cause" in question) return refuse({ ...question, askedAt }, question.cause);
    const asked = { ...question, askedAt };
    const ruling = await ask(question);
    if (ruling === undefined) return refuse(asked, "no_api_key");
    if (ruling.finding === "invalid_scope") {
      settings.onFault({ kind: "scope_not_accepted", requiredScope: question.requiredScope });
    }
    if (ruling.finding !== "allow") return refuse(asked, ruling.finding, ruling);
    const isReplay = question.operation !== undefined && ruling.answer.replayed === true;
    if (isReplay && settings.replays === "refuse") return refuse(asked, "replayed", ruling);
    return allow(asked, ruling);
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
