export type { Verifier } from "../operation.ts";
export type { Ask, Question } from "./asking.ts";
export {
  type ActionProof,
  type Agent,
  type AgentSettings,
  createAgent,
  type ProofAction,
  type ToolCall,
  type ToolOptions,
} from "./create_agent.ts";
export {
  AgentError,
  AwaitingApproval,
  Denied,
  Expired,
  NotDelegated,
  NotProven,
  Replayed,
  Revoked,
  Unanswered,
  Unavailable,
  WrongVerifier,
} from "./errors.ts";
export type { FetchInit } from "./request.ts";
export type { AgentVerifier, Verifiers } from "./verifiers.ts";
