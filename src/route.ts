import type { ZodType } from "zod";
import type { ErrorCode } from "./errors.ts";

/**
 * Who may call a route: anybody, a signed-in person, the holder of an API key, either of these two, or the
 * operator.
 */
export type Access = "public" | "session" | "api_key" | "account" | "operator";

/** What somebody may do for an organization; which calls that are is declared with each of them. */
export const memberRoles = ["owner", "approver", "developer", "auditor"] as const;
export type MemberRole = (typeof memberRoles)[number];

/**
 * A signed-in person by their own account, and their role in the account that they act for; `null` once the
 * address that opened an organization's account has left it.
 */
export type ActingPerson = { accountId: string; email: string; role: MemberRole | null };

/** A signed-in person, acting for their own account or for an organization that they are a member of. */
export type SessionCaller = {
  /** The account acted for. */
  accountId: string;
  /** Whether that is an organization's. */
  organization: boolean;
  person: ActingPerson;
  /** Whether the person is one who looks after the service; never while they act for somebody else. */
  serviceAdministrator: boolean;
  sessionId: string;
  familyId: string;
  /** Of the person's own account. */
  onboardingStep: "profile" | "account_type" | "complete";
};

/** The application behind an API key: one connection of one account. */
export type ApiKeyCaller = {
  accountId: string;
  connectionId: string;
  keyPrefix: string;
  /** The connection's registered name, by which operations are bound to it. */
  verifierId: string;
  /** Whether AuthZEN questions without a proof are answered from the registry. */
  registryAnswers: boolean;
};

/** Kinds of an API key's calls that have a rate of their own: proofs that are made, agents that are made. */
export type RatedKind = "present" | "agents";

/** A person or an application of an account; an application sees what belongs to its connection only. */
export type AccountCaller = {
  accountId: string;
  connectionId: string | null;
  /** Who calls with a session, and whether that is for an organization. */
  person?: ActingPerson;
  organization?: boolean;
};

/** The leader of the Kubernetes operator in the cluster `clusterId`. */
export type OperatorCaller = { clusterId: string };

/** The proven caller of a route by its access. */
export type CallerOf = {
  public: undefined;
  session: SessionCaller;
  api_key: ApiKeyCaller;
  account: AccountCaller;
  operator: OperatorCaller;
};

/** One call, authenticated and with every part validated against the route's schemas. */
export type Call<A extends Access, P, Q, B> = {
  caller: CallerOf[A];
  params: P;
  query: Q;
  body: B;
  /** The client's address, as far as trusted proxies vouch for it. */
  ip: string;
  requestId: string;
  /** A request header by its lower-case name; `x-service-…` names whatever the service's word is. */
  header(name: string): string | undefined;
  /** The value of one of the service's cookies. */
  cookie(name: CookieName): string | undefined;
};

/** The service's cookies; on the wire their names carry the service's word. */
export type CookieName = "session" | "refresh" | "csrf" | "sign_in";

/** A cookie to set (`value`, `maxAgeSeconds`) or, with an empty value, to clear. */
export type CookieChange = { name: CookieName; value: string; maxAgeSeconds: number };

/** What a route answers. The status is the route's own unless it is one of its other answers. */
export type Answer<R> = {
  body: R;
  status?: number;
  headers?: Record<string, string>;
  cookies?: CookieChange[];
  /** What an organization's activity tells of it besides what was sent; not answered, and never a secret. */
  told?: Record<string, string>;
};

/**
 * What headers of a request or an answer are for, by their names; `X-Service-…` carries the service's word.
 */
export type HeaderNotes = Record<string, string>;

/** What an answer is, with the headers that it always has and those that it may have. */
type AnswerNotes = { description: string; headers?: HeaderNotes; optionalHeaders?: HeaderNotes };

/** One operation of the HTTP contract: what routes it, who may call it, what it takes, gives and refuses. */
export type Route<A extends Access = Access, P = unknown, Q = unknown, B = unknown, R = unknown> = {
  /** Unique name, snake_case; the OpenAPI operation id. */
  id: string;
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /**
   * Path with `{name}` parameters, the last of them perhaps `{name*}`, which takes all segments that are
   * left; the segment `service` becomes the service's word and its aliases.
   */
  path: string;
  /** Further paths without parameters at which it is served, as they are; they are not documented. */
  alsoAt?: readonly string[];
  summary: string;
  access: A;
  /** Session routes need a complete onboarding unless this is `"any"`. */
  onboarding?: "any";
  /**
   * Who of an organization may call it with a session, besides owners: absent, nobody else. `"person"` is for
   * calls about the signed-in person, who then acts for their own account, whichever the call names.
   * `"service_administrator"` is for who looks after the service, whatever their role anywhere; for everybody
   * else there is no such call.
   */
  roles?: readonly MemberRole[] | "person" | "service_administrator";
  /** What an organization's activity tells of the body, besides the path's parameters; never a secret. */
  told?(body: B): Record<string, string | boolean>;
  /** Session calls that change state need the CSRF header; `false` only where no session exists yet. */
  csrf?: false;
  /** Calls of the operator name the epoch of its leader; `"none"` where no leader has one yet. */
  epoch?: "none";
  params?: ZodType<P>;
  query?: ZodType<Q>;
  /** JSON body. Absent: the call takes none, whatever is sent is ignored. */
  body?: ZodType<B>;
  /** `"raw"`: the handler gets the unparsed bytes (a Buffer) and decodes strictly by itself. */
  bodyForm?: "raw";
  answer: { status: 200 | 201; schema: ZodType<R> } & AnswerNotes;
  /** Answers of another status that are not errors of this service; without a schema: without a body. */
  otherAnswers?: Record<number, { schema?: ZodType } & AnswerNotes>;
  /** Request headers that it reads besides those of its access. */
  headers?: HeaderNotes;
  /** What the handler of a public route demands by itself, all of it. */
  demands?: readonly ("refresh" | "csrf" | "api_key")[];
  /** Codes it can answer besides those of its access and of malformed calls. */
  errors: ErrorCode[];
  /**
   * What becomes of an `Idempotency-Key`: with `true` it gives the caller the first answer again for 24
   * hours; `"foreign"` is for a call that passes on other people's headers, so it is left alone. Absent: a
   * call with one is refused.
   */
  idempotent?: true | "foreign";
  /** The rate that it counts for; calls with an API key only. */
  rate?: RatedKind;
  /**
   * Its answer shows a secret: under an `Idempotency-Key` it is given again to the same sign-in, for ten
   * minutes.
   */
  showsSecret?: true;
  /** What makes two bodies under one `Idempotency-Key` the same call, when that is not all of their bytes. */
  sameCall?(body: B): unknown;
  handle(call: Call<A, P, Q, B>): Promise<Answer<R>>;
};

/** Declares a route, inferring the types of its parts from its schemas. */
export function route<A extends Access, P = unknown, Q = unknown, B = undefined, R = unknown>(
  declaration: Route<A, P, Q, B, R>,
): Route {
  return declaration as unknown as Route;
}
