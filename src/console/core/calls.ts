import type { CreditsAnswer } from "../../accounts/ledger/credits_route.ts";
import type { SessionAnswer } from "../../accounts/sessions/session_route.ts";
import type { DailyCounts } from "../../audit/daily_counts_route.ts";
import type { HistoryAnswer } from "../../audit/history_route.ts";
import type { CertificateAnswer, RequestAnswer } from "../../delegations/answers.ts";

type PageOf<Item> = { items: Item[]; next_cursor: string | null };

/** What the operations answer that pages call, by operation id. A page's own operations come in here. */
export type Answers = {
  get_session: SessionAnswer;
  get_credits: CreditsAnswer;
  list_delegation_requests: PageOf<RequestAnswer>;
  get_delegation_request: RequestAnswer;
  approve_delegation_request: { cert_id: string };
  deny_delegation_request: { status: string };
  list_delegations: PageOf<CertificateAnswer>;
  list_audit_events: HistoryAnswer;
  count_decisions: DailyCounts;
  send_code: { status: string };
  verify_code: { onboarding_step: string };
  refresh_session: { expires_at: string };
  logout: { status: string };
  set_profile: { onboarding_step: string };
  set_account_type: { onboarding_step: string };
};

/** The id of an operation that pages may call. */
export type OperationId = keyof Answers;

/** What a call of an operation takes; `once` sends the idempotency key that the form carried. */
export type CallInput = {
  params?: Record<string, string>;
  query?: Record<string, string | undefined>;
  body?: unknown;
  once?: true;
};

/**
 * Calls an operation of the API for the person whose request a page answers: with their cookies, the CSRF
 * token of the form that they sent and the account that they act for. A refusal is thrown as `ApiError`.
 */
export type Call = <Id extends OperationId>(id: Id, input?: CallInput) => Promise<Answers[Id]>;
